
const thing = (values) => new Proxy(values, { get: (of, name) => () => of[name] });
const list = { name: () => 'Home', reminders: {} };
const made = (values) => thing({ id: 'r1', completed: false, container: list, ...values });
const day = new Date(Date.UTC(2024, 4, 3));
const all = [made({ id: 'r0', name: 'Old' }), made({ name: 'Tea', dueDate: day })];
const same = (each, wanted) => Object.entries(wanted).every(([k, v]) => each[k]() === v);
list.reminders = {
  push: (each) => all.push(each),
  whose: (wanted) => () => all.filter((each) => same(each, wanted)),
};
globalThis.Application = () => ({ lists: () => [list], Reminder: made });
