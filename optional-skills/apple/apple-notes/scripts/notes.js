// Apple Notes from the command line; see SKILL.md.
// osascript -l JavaScript notes.js ACTION ARGUMENTS…, prints JSON.

const MOST = 50;

function escaped(text) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  return text.replace(/[&<>]/g, (sign) => signs[sign]);
}

// Notes keeps its text as HTML, a line in each div.
function markup(text) {
  return text.split("\n").map((line) => `<div>${escaped(line) || "<br>"}</div>`).join("");
}

function facts(note) {
  return {
    id: note.id(),
    name: note.name(),
    folder: note.container().name(),
    changed: note.modificationDate().toISOString(),
  };
}

function search(app, words) {
  const wanted = words.map((word) => word.toLowerCase());
  const found = [];
  for (const note of app.notes()) {
    if (note.passwordProtected() || found.length === MOST) continue;
    const text = `${note.name()}\n${note.plaintext()}`.toLowerCase();
    if (wanted.every((word) => text.includes(word))) found.push(facts(note));
  }
  return found;
}

function byId(app, id) {
  const note = app.notes().find((each) => each.id() === id);
  if (!note) throw new Error(`there is no note ${id}; look with search`);
  if (note.passwordProtected()) throw new Error("the note is locked");
  return note;
}

function folder(app, name) {
  const found = app.folders().find((each) => each.name() === name);
  if (!found) {
    const names = app.folders().map((each) => each.name()).join(", ");
    throw new Error(`there is no folder ${name}; there are: ${names}`);
  }
  return found;
}

function create(app, where, title, text) {
  const note = app.Note({ name: title, body: `<h1>${escaped(title)}</h1>${markup(text)}` });
  folder(app, where).notes.push(note);
  return facts(note);
}

function append(app, id, text) {
  const note = byId(app, id);
  note.body = note.body() + markup(text);
  return facts(note);
}

function read(app, id) {
  const note = byId(app, id);
  return { ...facts(note), text: note.plaintext() };
}

const ACTIONS = {
  folders: { least: 0, run: (app) => app.folders().map((each) => each.name()) },
  search: { least: 1, run: (app, ...words) => search(app, words) },
  read: { least: 1, run: read },
  create: { least: 3, run: create },
  append: { least: 2, run: append },
};

function run(argv) {
  const [name, ...rest] = argv;
  const action = ACTIONS[name];
  if (!action || rest.length < action.least) {
    const names = Object.keys(ACTIONS).join(", ");
    throw new Error(`give one of these actions with its arguments: ${names}`);
  }
  return JSON.stringify(action.run(Application("Notes"), ...rest), null, 1);
}
