"use strict";
// Traces are text of a model, which may be hostile. Everything is added as text nodes, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const OUTCOMES = { pass: "passed", fail: "not passed", none: "no reward", error: "failed" };
const PAGE_ROWS = 200;
const view = { task: "", outcome: "", shown: PAGE_ROWS, open: -1 };
const $ = (id) => document.getElementById(id);

function el(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

const number = (value, digits) =>
  value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: 0 });
const money = (value) =>
  value === null ? "–" : value === 0 ? "$0" : value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(2)}`;
const time = (value) =>
  value < 60 ? `${number(value, value < 10 ? 1 : 0)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
const reward = (value) => (value === null ? "–" : number(value, 3));

// The list of traces.

const chosen = () =>
  data.rows.filter(
    (row) => (!view.task || row.task === view.task) && (!view.outcome || row.outcome === view.outcome),
  );

function traceRow(row) {
  const name = el("button", "link", row.task);
  const cells = [
    el("td", "", el("span", `chip ${row.outcome}`, OUTCOMES[row.outcome])),
    el("td", "task", name),
    el("td", "n", String(row.number)),
    el("td", "n", reward(row.reward)),
    el("td", "n wide", money(row.cost)),
    el("td", "n wide", time(row.seconds)),
    el("td", "n wide", String(row.calls)),
    el("td", "n wide", number(row.tokens, 0)),
  ];
  const line = el("tr", "row", ...cells);
  line.addEventListener("click", () => (location.hash = `trace-${row.index}`));
  return line;
}

function showList() {
  const rows = chosen();
  $("trace-rows").replaceChildren(...rows.slice(0, view.shown).map(traceRow));
  $("trace-count").value = `${number(rows.length, 0)} of ${number(data.rows.length, 0)} traces`;
  $("trace-more").hidden = rows.length <= view.shown;
  for (const button of document.querySelectorAll("[data-outcome]"))
    button.setAttribute("aria-pressed", String(button.dataset.outcome === view.outcome));
  $("trace-task").value = view.task;
}

function filter(change) {
  Object.assign(view, change, { shown: PAGE_ROWS });
  showList();
}

// One trace.

function pairs(entries) {
  const list = el("dl", "pairs card");
  for (const [name, value, more] of entries)
    list.append(el("div", "", el("dt", "", name), el("dd", "", value, more ? el("small", "", ` ${more}`) : "")));
  return list;
}

// Arguments and results are JSON as a rule. Strings are shown as they are, with their line breaks.
function pretty(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value, null, 2);
  const show = (each) => (typeof each === "string" ? each : JSON.stringify(each, null, 2));
  return Object.entries(value)
    .map(([name, each]) => `${name}:${show(each).includes("\n") ? "\n" : " "}${show(each)}`)
    .join("\n");
}

const shared = (text) => (typeof text === "number" ? data.shared[text] : text);
const cutNote = (count) =>
  count ? el("p", "cut", `${number(count, 0)} characters are left out here; the file of the traces has them.`) : "";

function folded(summary, content) {
  return el("details", "", el("summary", "", summary), content);
}

function callBox(call, result) {
  const box = el("div", "call", el("span", "name", call.name), el("pre", "", pretty(call.arguments)));
  box.append(cutNote(call.cut));
  if (result)
    box.append(el("p", "label", "result"), el("pre", "", pretty(shared(result.text))), cutNote(result.cut));
  return box;
}

function messageBox(message, results) {
  const text = shared(message.text);
  const facts = [];
  if (message.seconds) facts.push(time(message.seconds));
  if (message.tokens) facts.push(`${number(message.tokens[0], 0)} → ${number(message.tokens[1], 0)} tokens`);
  if (message.cost) facts.push(money(message.cost));
  if (message.finish && message.finish !== "stop" && message.finish !== "tool_calls") facts.push(message.finish);
  const box = el("div", `message-box card ${message.role}`,
    el("p", "who", message.role, el("span", "", facts.join(" · "))));
  if (message.thinking) box.append(folded("Reasoning", el("div", "text", message.thinking)));
  if (text) {
    const body = el("div", "text", text);
    box.append(message.role === "system" ? folded(`${number(text.length, 0)} characters`, body) : body);
  }
  box.append(cutNote(message.cut));
  for (const call of message.calls || []) {
    box.append(callBox(call, results.get(call.id)));
    results.delete(call.id);
  }
  return box;
}

function conversation(trace, branch) {
  const messages = branch.map((index) => trace.messages[index]);
  const answered = new Set(messages.flatMap((m) => (m.calls || []).map((call) => call.id)));
  const results = new Map(messages.filter((m) => m.role === "tool").map((m) => [m.id, m]));
  return messages
    .filter((message) => message.role !== "tool" || !answered.has(message.id))
    .map((message) => messageBox(message, results));
}

function traceFacts(row, trace) {
  const entries = [["Reward", reward(row.reward)]];
  for (const [name, value, weight] of trace.rewards)
    entries.push([name, number(value, 3), weight === 1 ? "" : `× ${number(weight, 3)}`]);
  for (const [name, value] of Object.entries(trace.metrics)) entries.push([name, number(value, 3), "metric"]);
  entries.push(
    ["Time", time(row.seconds)],
    ["Cost", money(row.cost)],
    ["Model calls", String(row.calls)],
    ["Tokens", number(row.tokens, 0), `${number(trace.read, 0)} read, ${number(trace.written, 0)} written`],
    ["Ended", trace.exit || "–"],
    ["Model", row.model || "–"],
    ["Started", trace.started ? new Date(trace.started * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "–"],
  );
  return pairs(entries);
}

function failureBox(failure, title) {
  return el("div", "failure", el("b", "", `${title}: ${failure.boundary}`), `${failure.error}: ${failure.message}`);
}

function traceBody(row) {
  const source = $(`trace-${row.index}-data`);
  if (!source) {
    const text = "The conversation is left out to keep this page small. It is in the file of the traces.";
    return [pairs([["Reward", reward(row.reward)], ["Time", time(row.seconds)], ["Cost", money(row.cost)]]), el("p", "cut", text)];
  }
  const trace = JSON.parse(source.textContent);
  const parts = [];
  if (trace.failure) parts.push(failureBox(trace.failure, "Failed, not scored"));
  for (const failure of trace.retried) parts.push(failureBox(failure, "An earlier attempt failed"));
  parts.push(traceFacts(row, trace));
  if (trace.tools.length) parts.push(folded(`${trace.tools.length} tools`, el("div", "text", trace.tools.join(", "))));
  const talk = el("div", "");
  const show = (index) => talk.replaceChildren(...conversation(trace, trace.branches[index]));
  if (trace.branches.length > 1) {
    const select = el("select", "");
    trace.branches.forEach((_, index) => select.append(new Option(`branch ${index + 1} of ${trace.branches.length}`, index)));
    select.value = String(trace.branches.length - 1);
    select.addEventListener("change", () => show(Number(select.value)));
    parts.push(select);
  }
  if (trace.branches.length) show(trace.branches.length - 1);
  else talk.append(el("p", "note", "No model call was recorded."));
  return [...parts, talk];
}

function openTrace(index) {
  const row = data.rows[index];
  if (!row) return;
  view.open = index;
  $("dialog-title").replaceChildren(`${row.task} `, el("span", "quiet", `#${row.number}`));
  const chip = $("dialog-chip");
  chip.className = `chip ${row.outcome}`;
  chip.textContent = OUTCOMES[row.outcome];
  $("dialog-body").replaceChildren(...traceBody(row));
  if (!$("trace-dialog").open) $("trace-dialog").showModal();
  $("trace-dialog").scrollTop = 0;
}

function step(by) {
  const rows = chosen();
  const at = rows.findIndex((row) => row.index === view.open);
  const next = rows[at + by];
  if (next) location.hash = `trace-${next.index}`;
}

function followHash() {
  const found = /^#trace-(\d+)$/.exec(location.hash);
  if (found) openTrace(Number(found[1]));
  else $("trace-dialog").close();
}

// Sorting of the task table. Rows without a value stay last.

function sortBy(header) {
  const table = header.closest("table");
  const column = [...header.parentNode.children].indexOf(header);
  const down = header.getAttribute("aria-sort") !== "descending";
  const value = (row) => row.children[column].dataset.value ?? "";
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return down ? -order : order;
  });
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sortBy(button.closest("th")));
for (const name of [...new Set(data.rows.map((row) => row.task))].sort())
  $("trace-task").append(new Option(name, name));
$("trace-task").addEventListener("change", (event) => filter({ task: event.target.value }));
for (const button of document.querySelectorAll("[data-outcome]"))
  button.addEventListener("click", () => filter({ outcome: button.dataset.outcome }));
for (const button of document.querySelectorAll("[data-task]"))
  button.addEventListener("click", () => {
    filter({ task: button.dataset.task, outcome: button.dataset.only || "" });
    $("traces-section").scrollIntoView({ behavior: "smooth" });
  });
$("trace-more").addEventListener("click", () => {
  view.shown += PAGE_ROWS;
  showList();
});
$("trace-previous").addEventListener("click", () => step(-1));
$("trace-next").addEventListener("click", () => step(1));
$("trace-close").addEventListener("click", () => $("trace-dialog").close());
$("trace-dialog").addEventListener("close", () => {
  if (location.hash.startsWith("#trace-")) history.replaceState(null, "", location.pathname + location.search);
});
$("trace-dialog").addEventListener("click", (event) => {
  if (event.target === $("trace-dialog")) $("trace-dialog").close();
});
document.addEventListener("keydown", (event) => {
  if (!$("trace-dialog").open || event.target.tagName === "SELECT") return;
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
window.addEventListener("hashchange", followHash);
showList();
followHash();
