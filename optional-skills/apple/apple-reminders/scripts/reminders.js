// Apple Reminders from the command line; see SKILL.md.
// osascript -l JavaScript reminders.js ACTION ARGUMENTS…, prints JSON.

function facts(reminder) {
  const due = reminder.dueDate();
  return {
    id: reminder.id(),
    name: reminder.name(),
    list: reminder.container().name(),
    due: due ? due.toISOString() : null,
    done: reminder.completed(),
    notes: reminder.body() || "",
  };
}

function list(app, name) {
  const found = app.lists().find((each) => each.name() === name);
  if (!found) {
    const names = app.lists().map((each) => each.name()).join(", ");
    throw new Error(`there is no list ${name}; there are: ${names}`);
  }
  return found;
}

// "2024-05-03 15:00" or "2024-05-03" (then at 9) in the time of this Mac.
function moment(text) {
  const found = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d))?$/.exec(text);
  if (!found) throw new Error(`${text} is no time; write 2024-05-03 15:00`);
  const [year, month, day, hour, minute] = found.slice(1).map((part) => part && Number(part));
  const made = new Date(year, month - 1, day, hour === undefined ? 9 : hour, minute || 0);
  if (made.getMonth() !== month - 1 || made.getDate() !== day) throw new Error(`there is no day ${text}`);
  return made;
}

function open(app, name) {
  const lists = name ? [list(app, name)] : app.lists();
  const found = lists.flatMap((each) => each.reminders.whose({ completed: false })().map(facts));
  return found.sort((a, b) => (a.due || "9").localeCompare(b.due || "9"));
}

function add(app, where, name, due, notes) {
  const values = { name };
  if (due) Object.assign(values, { dueDate: moment(due), remindMeDate: moment(due) });
  if (notes) values.body = notes;
  const reminder = app.Reminder(values);
  list(app, where).reminders.push(reminder);
  return facts(reminder);
}

function done(app, id) {
  for (const each of app.lists()) {
    const found = each.reminders.whose({ id })();
    if (found.length) {
      found[0].completed = true;
      return facts(found[0]);
    }
  }
  throw new Error(`there is no reminder ${id}; look with open`);
}

const ACTIONS = {
  lists: { least: 0, run: (app) => app.lists().map((each) => each.name()) },
  open: { least: 0, run: open },
  add: { least: 2, run: add },
  done: { least: 1, run: done },
};

function run(argv) {
  const [name, ...rest] = argv;
  const action = ACTIONS[name];
  if (!action || rest.length < action.least) {
    const names = Object.keys(ACTIONS).join(", ");
    throw new Error(`give one of these actions with its arguments: ${names}`);
  }
  return JSON.stringify(action.run(Application("Reminders"), ...rest), null, 1);
}
