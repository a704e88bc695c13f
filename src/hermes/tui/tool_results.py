"""The list of the tool `todo`, for people."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolDenied
from hermes.core.events import ToolFinished
from hermes.core.marks import TODO_LIST
from hermes.core.messages import INTERRUPTED_RESULT, ToolCall
from hermes.tui.display import DisplayState
from hermes.tui.text import Paint, cut, duration, one_line, safe, width, wrapped
from hermes.util.text import many

_LINE = re.compile(r"(?P<mark>\[[x> -]\]) \S+: (?P<text>.*)")


class Look(msgspec.Struct, frozen=True):
    mark: str
    role: str
    open: bool = False


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "[x]": Look("☑", "ok"),
        "[>]": Look("◐", "accent", open=True),
        "[ ]": Look("☐", "text", open=True),
        "[-]": Look("☒", "dim"),
    }
)


def tasks(result: str) -> list[tuple[Look, str]]:
    """The tasks in a result of the tool; none when it shows no list."""
    head, *lines = result.split("\n")
    if not head.startswith(TODO_LIST):
        return []
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append((LOOKS[match["mark"]], match["text"]))
    return found


def counted(result: str) -> str:
    """`2 done of 5`."""
    found = tasks(result)
    done = sum(look is LOOKS["[x]"] for look, _ in found)
    return f"{done} done of {len(found)}" if found else ""


def todo_rows(result: str, columns: int, paint: Paint, most: int) -> list[str]:
    """A row for each task; of a long list, those around the first that is open."""
    found = tasks(result)
    start = 0
    if len(found) > most:
        first = next((at for at, (look, _) in enumerate(found) if look.open), 0)
        start = max(0, min(first - 1, len(found) - most))
    rows = [_row(look, text, columns, paint) for look, text in found[start : start + most]]
    before, after = start, len(found) - start - len(rows)
    return [
        *([paint("dim", one_line(f"… {many(before, 'task')} before", columns))] if before else []),
        *rows,
        *([paint("dim", one_line(f"… {many(after, 'more task')}", columns))] if after else []),
    ]


def _row(look: Look, text: str, columns: int, paint: Paint) -> str:
    shown = one_line(text, columns - 2)
    return f"{paint(look.role, look.mark)} {shown if look.open else paint('dim', shown)}"


# A tool call, taken apart for those who tell about it.


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}
    unread: str = ""
    """What the model wrote, where that is no JSON object."""

    def text(self, key: str) -> str:
        """An argument as text; "" when there is none."""
        return as_text(self.arguments.get(key))


def call_of(call: ToolCall) -> Call:
    """A tool that is run by `tool_search` is shown as itself."""
    arguments = decoded(call.arguments or "{}")
    if not isinstance(arguments, dict):
        return Call(call.name, unread=call.arguments)
    name, inner = arguments.get("name"), arguments.get("arguments")
    if call.name == "tool_search" and isinstance(name, str) and name:
        return Call(name, inner if isinstance(inner, dict) else {})
    return Call(call.name, arguments)


def as_text(value: Any) -> str:
    """Any value of a JSON text; "" for none."""
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, OverflowError):
        return "…"  # nested too deeply, or a number that no tool takes


def decoded(text: str) -> Any:
    """The value of a JSON text; None when it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


# What a tool call is about, in a few words.

MOST = 4_000
"""Characters that are looked at: only a line of them is shown."""
MAX_RESULT_LINES = 1_000_000_000
"""A file has fewer."""

_FILE = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: (?P<ours>.+)|\+\+\+ (?:b/)?(?P<git>\S+).*)$",
    re.MULTILINE,
)


def about(call: Call) -> str:
    """As the model wrote it: of any length, and not safe for a terminal."""
    if call.unread:
        return call.unread[:MOST]
    words = _WORDS.get(call.name)
    if words is not None:
        return words(call)[:MOST]
    keys = _KEYS.get(call.name)
    if keys is None:
        values = [value for value in call.arguments.values() if isinstance(value, str | int)]
        return "  ".join(as_text(value)[:MOST] for value in values[:3])
    return "  ".join(filter(None, (call.text(key)[:MOST] for key in keys)))


def changed_files(patch: str) -> list[str]:
    """The files a patch names."""
    names = (found["ours"] or found["git"] for found in _FILE.finditer(patch))
    return [name.strip() for name in dict.fromkeys(names) if name != "/dev/null"]


def _terminal(call: Call) -> str:
    command = call.text("command").strip()
    return f"{command} &" if call.arguments.get("background") is True else command


def _read_file(call: Call) -> str:
    offset, limit = (_count(call.arguments.get(key)) for key in ("offset", "limit"))
    if not offset and not limit:
        return call.text("path")
    first = offset or 1
    return f"{call.text('path')}:{first}-{first + limit - 1 if limit else ''}"


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < MAX_RESULT_LINES else 0


def _patch(call: Call) -> str:
    if path := call.text("path"):
        return path
    names = changed_files(call.text("patch"))
    return names[0] if len(names) == 1 else f"{many(len(names), 'file')}: {', '.join(names)}"


def _search_files(call: Call) -> str:
    places = [call.text("path"), call.text("file_glob")]
    where = " ".join(place for place in places if place not in ("", "."))
    return f'"{call.text("pattern")}"{f" in {where}" if where else ""}'


def _first_of(call: Call, key: str) -> str:
    """The first of a list of texts, and how many more there are."""
    values = call.arguments.get(key)
    if not isinstance(values, list) or not values:
        return call.text(key)
    more = f" +{len(values) - 1}" if len(values) > 1 else ""
    return f"{as_text(values[0])}{more}"


def _delegate_task(call: Call) -> str:
    tasks = call.arguments.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return call.text("goal")
    goals = [as_text(task.get("goal")) for task in tasks if isinstance(task, dict)]
    return goals[0] if len(goals) == 1 else f"{many(len(tasks), 'task')}: {'; '.join(goals)}"


def _execute_code(call: Call) -> str:
    """The first line that does something."""
    lines = call.text("code")[:MOST].strip().splitlines()
    quiet = ("import ", "from ", "#")
    telling = (line for line in lines if line.strip() and not line.startswith(quiet))
    return next(telling, lines[0] if lines else "")


_WORDS: Mapping[str, Callable[[Call], str]] = MappingProxyType(
    {
        "terminal": _terminal,
        "read_file": _read_file,
        "patch": _patch,
        "search_files": _search_files,
        "web_extract": lambda call: _first_of(call, "urls"),
        "delegate_task": _delegate_task,
        "execute_code": _execute_code,
    }
)
_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "write_file": ("path",),
        "todo": (),
        "process": ("action", "session_id", "data"),
        "web_search": ("query",),
        "clarify": ("question",),
        "memory": ("action", "target", "content", "old_text"),
        "session_search": ("query",),
        "skills_list": ("category", "query"),
        "skill_view": ("name", "file_path"),
        "skill_manage": ("action", "name", "file_path"),
        "tool_search": ("query",),
        "cronjob": ("action", "name", "job_id", "schedule"),
        "send_message": ("action", "target", "message"),
        "browser_navigate": ("url",),
        "browser_type": ("ref", "text"),
        "browser_vision": ("question",),
        "image_generate": ("prompt",),
        "vision_analyze": ("question", "image_url"),
        "text_to_speech": ("text",),
        "mixture_of_agents": ("user_prompt",),
    }
)
"""Arguments that tell what a call is about, where no more is needed; of other tools, the first."""


# Rows of a terminal that tell of tool calls.

INDENT = "   "
"""Before everything that stands below the line of a call."""
LEAST = 8
"""Columns that are worth giving to what a call is about."""
NOTE = 40
"""Columns of a note."""
LONGEST = 4_000
"""Characters that are looked at of one line of a result."""


def headline(
    call: Call,
    looks: DisplayState,
    columns: int,
    notes: Sequence[str] = (),
    mark: tuple[str, str] = ("", ""),
) -> str:
    """Symbol, tool, what it is about, notes, and a mark given as role and text. Notes are left out
    where there is no room."""
    paint = looks.paint
    symbol = _symbol(call.name, looks)
    end = f" {mark[1]}" if mark[1] else ""
    room = columns - width(symbol) - 1 - width(end)
    name = one_line(call.name, min(room, max(LEAST, columns // 2))) or "?"
    words = one_line(about(call), min(looks.preview or columns, columns))
    room -= width(name)
    told = _fitting([note for note in notes if note], room - min(LEAST, width(words) + 1))
    words = cut(words, room - sum(3 + width(note) for note in told) - 1)
    line = f"{paint('tool', symbol)} {paint('tool', name)}"
    line += f" {words}" if words else ""
    line += "".join(paint("dim", f" · {note}") for note in told)
    return line + (f" {paint(*mark)}" if end else "")


def _fitting(notes: Sequence[str], room: int) -> Sequence[str]:
    """All of the notes, else the first, else the last, else none."""
    notes = [one_line(note, NOTE) for note in notes]
    choices = (notes, notes[:1], notes[-1:])
    fitting = (each for each in choices if sum(3 + width(note) for note in each) <= room)
    return next(fitting, ())


def _symbol(name: str, looks: DisplayState) -> str:
    """As wide for all tools of a skin, so that their names stand below each other."""
    emojis = looks.skin.tool_emojis
    symbol = emojis.get(name, looks.skin.tool_prefix)
    return symbol + " " * (max(map(width, emojis.values())) - width(symbol)) if emojis else symbol


def one_row_each(lines: Iterable[str], columns: int, paint: Paint, role: str) -> list[str]:
    room = columns - len(INDENT)
    shown = (cut(_safe_line(line), room) for line in lines)
    return [INDENT + paint(role, line) for line in shown]


def rows_of(text: str, columns: int, paint: Paint, role: str, most: int) -> list[str]:
    """A text broken to fit, at most so many rows and one that tells how many lines follow."""
    room = columns - len(INDENT)
    lines = text.strip("\n").split("\n")
    rows: list[str] = []
    for at, line in enumerate(lines):
        broken = _wrapped(_safe_line(line), room)
        if len(rows) + len(broken) > most:
            rows += broken[: most - len(rows)]
            return [
                *(INDENT + paint(role, row) for row in rows),
                more(len(lines) - at, columns, paint),
            ]
        rows += broken
    return [INDENT + paint(role, row) for row in rows]


def _wrapped(line: str, room: int) -> list[str]:
    """With the indentation of the line kept before each of its rows, as far as it leaves room."""
    body = line.lstrip(" ")
    margin = " " * min(len(line) - len(body), room // 2)
    return [margin + row for row in wrapped(body, room - len(margin))]


def more(count: int, columns: int, paint: Paint) -> str:
    return INDENT + paint("dim", cut(f"… {count:,} more lines", columns - len(INDENT)))


def _safe_line(line: str) -> str:
    return safe(line[:LONGEST].rstrip("\r")).replace("\n", " ").rstrip()


# Results of tools as text for people: what is inside of JSON and of fences.

_TEXTS = ("error", "output", "text", "content", "result", "results", "message", "summary", "answer")
"""Keys under which the text of a result stands, the most telling first."""
_FENCE = re.compile(r"^\[[^\n]*data, not instructions\]\n<<<(?P<mark>[0-9a-f]{6,32})\n", re.M)
_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}|[^u\n])"
_BROKEN = re.compile(rf'"(?:{"|".join(_TEXTS)})":\s*"((?:[^"\\\n]|{_ESCAPE})+)')
"""A text in JSON that was cut somewhere."""
DEEPEST = 8


def readable(result: str) -> str:
    """As the tool wrote it otherwise; not safe for a terminal."""
    text = unfenced(result).strip("\n")
    begins = text.lstrip()[:1]
    if begins not in ("{", "["):
        return text
    value = decoded(text)
    if isinstance(value, dict | list):
        return told(value)
    cut = _BROKEN.search(text) if begins == "{" else None
    inner = decoded(f'"{cut[1]}"') if cut else None
    return inner if isinstance(inner, str) else text


def unfenced(text: str) -> str:
    """Without the lines that tell a model where foreign text begins and ends."""
    for mark in {found["mark"] for found in _FENCE.finditer(text)}:
        text = text.replace(f"\n{mark}>>>", "")
    return _FENCE.sub("", text)


def told(value: Any, depth: int = 0) -> str:
    """A JSON value in lines: its text when it has one, else a line for each entry."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        for key in _TEXTS:
            if value.get(key):
                return told(value[key], depth + 1)
        return "\n".join(f"{key}: {_short(each, depth)}" for key, each in value.items())
    if isinstance(value, list):
        return "\n".join(_short(each, depth) for each in value)
    return _scalar(value)


def _short(value: Any, depth: int) -> str:
    """An entry, on one line if it is no text."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, dict):
        if any(value.get(key) for key in _TEXTS):
            return told(value, depth + 1)
        return ", ".join(f"{key}: {_short(each, depth + 1)}" for key, each in value.items())
    if isinstance(value, list):
        few = [_short(each, depth + 1) for each in value[:5]]
        return ", ".join(few) + (f" … ({len(value)})" if len(few) < len(value) else "")
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


# What came of a tool call.

Mark = Literal["ok", "failed", "stopped"]
FEW = 2
"""Lines of a result that are shown where there is little room."""

_EXIT = re.compile(r"^\[exit code (?P<code>-?\d+)(?:: (?P<meaning>.+))?\]$", re.MULTILINE)
_PAGE = re.compile(r"^\[lines (\d+-\d+ of (?:more than )?\d+)", re.MULTILINE)
_NUMBERED = re.compile(r"^\d+\|", re.MULTILINE)
_WRITTEN = re.compile(r"^(?:created|replaced) .*: \d+ bytes?, (\d+ lines?)", re.MULTILINE)
_MATCHES = re.compile(r"\d+ (?:match(?:es)? in \d+ files?|files?)")
_HIT = re.compile(r"^\d+\. ", re.MULTILINE)


class Outcome(msgspec.Struct, frozen=True):
    """None of the texts is safe for a terminal yet."""

    mark: Mark
    text: str = ""
    """The result for people."""
    note: str = ""
    """The same in a word or two."""
    brief: tuple[str, ...] = ()
    """The lines to show where there is little room."""
    error: bool = False
    """The text says why the call failed."""


def outcome_of(call: Call, event: ToolFinished) -> Outcome:
    if event.result == INTERRUPTED_RESULT:
        return Outcome("stopped", note="stopped")
    if event.failed:
        text = readable(event.result).strip().removesuffix(f" ({ToolDenied.NO_OTHER_WAY})")
        return Outcome("failed", text, brief=_first(text, 3), error=True)
    return _READERS.get(call.name, _any)(event.result)


def _first(text: str, most: int = FEW) -> tuple[str, ...]:
    return tuple([line for line in text[:20_000].split("\n") if line.strip()][:most])


def _last(text: str, most: int) -> tuple[str, ...]:
    return tuple([line for line in text[-20_000:].split("\n") if line.strip()][-most:])


def _any(result: str) -> Outcome:
    text = readable(result).strip("\n")
    return Outcome("ok", text, _size(text, FEW), _first(text))


def _size(text: str, shown: int = 0) -> str:
    """How many lines a text has, when not all of them are shown."""
    lines = text.count("\n") + 1 if text else 0
    return many(lines, "line") if lines > shown else ""


def _outcomes_terminal(result: str) -> Outcome:
    ends = list(_EXIT.finditer(result))
    if not ends:
        return _output(result)
    end = ends[-1]  # the tool's own; the others are what the command wrote
    whole = _output(result[: end.start()] + result[end.end() + 1 :])
    note = f"exit code {end['code']}"
    if "not an error" in (end["meaning"] or ""):
        return Outcome("ok", whole.text, note, whole.brief)
    return Outcome("failed", whole.text, note, _last(whole.text, 3))


def _output(text: str) -> Outcome:
    text = text.strip("\n")
    if text in ("", "[no output]"):
        return Outcome("ok", note="no output")
    return Outcome("ok", text, _size(text, FEW), _first(text))


def _outcomes_read_file(result: str) -> Outcome:
    lines, page = len(_NUMBERED.findall(result)), _PAGE.search(result)
    if not lines:  # unchanged, empty or past its end
        return Outcome("ok", result, result.partition("\n")[0].strip("[]").partition(" (")[0])
    return Outcome("ok", result, f"lines {page[1]}" if page else many(lines, "line"))


def _write_file(result: str) -> Outcome:
    lines = _WRITTEN.search(result)
    return Outcome("ok", result, lines[1] if lines else "", _first(result))


def _outcomes_search_files(result: str) -> Outcome:
    found = _MATCHES.match(result)
    return Outcome("ok", result.partition("\n")[2], found[0] if found else "")


def _web_search(result: str) -> Outcome:
    text = unfenced(result)
    found = len(_HIT.findall(text))
    return Outcome("ok", text, many(found, "result") if found else "nothing found")


def _long(result: str) -> Outcome:
    """Of a long text, how long it is."""
    text = readable(result).strip("\n")
    return Outcome("ok", text, _size(text))


def _clarify(result: str) -> Outcome:
    """The question is shown with its answer when that comes."""
    return Outcome("ok", result.removeprefix("The user answers: "))


def _memory(result: str) -> Outcome:
    done, _, rest = result.partition("\n")
    return Outcome("ok", rest, done.rstrip(".").lower())


def _todo(result: str) -> Outcome:
    return Outcome("ok", result, counted(result), _first(result))


def _outcomes_execute_code(result: str) -> Outcome:
    value = decoded(result)
    if not isinstance(value, dict):
        return _any(result)
    error, calls = as_text(value.get("error")), value.get("tool_calls_made")
    whole = _output(as_text(value.get("output")))
    used = many(calls, "tool call") if isinstance(calls, int) and calls else ""
    if value.get("status") in ("success", None):
        return Outcome("ok", whole.text, ", ".join(filter(None, (whole.note, used))), whole.brief)
    text = "\n".join(filter(None, (whole.text, error)))
    return Outcome("failed", text, as_text(value.get("status")), _last(error or text, 3))


def _outcomes_delegate_task(result: str) -> Outcome:
    value = decoded(result)
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(results, list):
        return _any(result)
    children = [each for each in results if isinstance(each, dict)]
    done = sum(each.get("status") == "completed" for each in children)
    note = f"{done} of {len(children)} completed" if len(children) > 1 else ""
    told = [(_ending(number, each), _said(each)) for number, each in enumerate(children, 1)]
    return Outcome(
        "ok" if done else "failed",
        "\n".join(f"{ending}\n{said}" for ending, said in told),
        note,
        tuple(f"{ending}: {' '.join(said.split())}" for ending, said in told),
    )


def _ending(number: int, child: Mapping[str, Any]) -> str:
    seconds, calls = child.get("seconds"), child.get("api_calls")
    told = (
        as_text(child.get("status")) or "?",
        many(calls, "model call") if isinstance(calls, int) else "",
        duration(seconds) if isinstance(seconds, int | float) else "",
    )
    return f"[{number}] {', '.join(filter(None, told))}"


def _said(child: Mapping[str, Any]) -> str:
    return as_text(child.get("error") or child.get("summary")).strip() or "(nothing was said)"


_READERS: Mapping[str, Callable[[str], Outcome]] = MappingProxyType(
    {
        "terminal": _outcomes_terminal,
        "read_file": _outcomes_read_file,
        "write_file": _write_file,
        "search_files": _outcomes_search_files,
        "web_search": _web_search,
        "web_extract": _long,
        "skill_view": _long,
        "skills_list": _long,
        "session_search": _long,
        "clarify": _clarify,
        "memory": _memory,
        "todo": _todo,
        "execute_code": _outcomes_execute_code,
        "delegate_task": _outcomes_delegate_task,
    }
)
