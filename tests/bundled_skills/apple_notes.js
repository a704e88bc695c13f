
const thing = (values) => new Proxy(values, { get: (of, name) => () => of[name] });
const folder = { name: () => 'Notes', notes: { push: (note) => notes.push(note) } };
const made = (name, body, locked = false) => thing({
  id: `x-coredata://${name}`, name, body, passwordProtected: locked, container: folder,
  plaintext: body.replace(/<[^>]*>/g, ' '), modificationDate: new Date(0),
});
const notes = [made('Tea', '<div>green leaves</div>'), made('Secret', 'green', true)];
globalThis.Application = () => ({
  notes: () => notes, folders: () => [folder], Note: ({ name, body }) => made(name, body),
});
