"""Results of tools as text for the user: descriptions, outcomes and todo lists."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolDenied
from hermes.core.events import ToolFinished
from hermes.core.messages import INTERRUPTED_RESULT, TODO_LIST, ToolCall
from hermes.tui.skins import DisplayState
from hermes.tui.text import Paint, cut, format_duration, one_line, safe, width, wrap
from hermes.util.text import many, visible

_LINE = re.compile(r"(?P<mark>\[[x> -]\]) \S+: (?P<text>.*)")


class TaskStyle(msgspec.Struct, frozen=True):
    """How a task of the tool `todo` is shown."""

    mark: str
    role: str
    open: bool = False


TASK_STYLES: Mapping[str, TaskStyle] = {
    "[x]": TaskStyle("☑", "ok"),
    "[>]": TaskStyle("◐", "accent", open=True),
    "[ ]": TaskStyle("☐", "text", open=True),
    "[-]": TaskStyle("☒", "dim"),
}


def parse_tasks(result: str) -> list[tuple[TaskStyle, str]]:
    """Return the tasks in a result of `todo`; none if it shows no list."""
    head, *lines = result.split("\n")
    if not head.startswith(TODO_LIST):
        return []
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append((TASK_STYLES[match["mark"]], match["text"]))
    return found


def count_tasks(result: str) -> str:
    found = parse_tasks(result)
    done = sum(look is TASK_STYLES["[x]"] for look, _ in found)
    return f"{done} done of {len(found)}" if found else ""


def todo_rows(result: str, columns: int, paint: Paint, most: int) -> list[str]:
    """Return a row for each task; for a long list, those around the first open one."""
    found = parse_tasks(result)
    start = 0
    if len(found) > most:
        first = next((at for at, (look, _) in enumerate(found) if look.open), 0)
        start = max(0, min(first - 1, len(found) - most))
    rows = []
    for look, text in found[start : start + most]:
        shown = one_line(text, columns - 2)
        rows.append(f"{paint(look.role, look.mark)} {shown if look.open else paint('dim', shown)}")
    before, after = start, len(found) - start - len(rows)
    return [
        *([paint("dim", one_line(f"… {many(before, 'task')} before", columns))] if before else []),
        *rows,
        *([paint("dim", one_line(f"… {many(after, 'more task')}", columns))] if after else []),
    ]


class CallInfo(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}
    unread: str = ""  #: The arguments as written, if they are not a JSON object.

    def text(self, key: str) -> str:
        return as_text(self.arguments.get(key))


def parse_call(call: ToolCall) -> CallInfo:
    """Decode a call. A tool that is called through `tool_search` is shown as itself."""
    arguments = decode_json(call.arguments or "{}")
    if not isinstance(arguments, dict):
        return CallInfo(call.name, unread=call.arguments)
    name, inner = arguments.get("name"), arguments.get("arguments")
    if call.name == "tool_search" and isinstance(name, str) and name:
        return CallInfo(name, inner if isinstance(inner, dict) else {})
    return CallInfo(call.name, arguments)


def as_text(value: Any) -> str:
    """Return a JSON value as text; "" for None."""
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, OverflowError):
        return "…"  # nested too deeply, or a number that no tool takes


def decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


MAX_CHARS = 4_000  #: Characters of an argument that are used; only one line is shown.
MAX_RESULT_LINES = 1_000_000_000  #: Larger line numbers are ignored.

_FILE = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: (?P<ours>.+)|\+\+\+ (?:b/)?(?P<git>\S+).*)$",
    re.MULTILINE,
)


def describe_call(call: CallInfo) -> str:
    """Describe a call by its arguments. The text may be long and is not safe for a terminal."""
    if call.unread:
        return call.unread[:MAX_CHARS]
    words = _DESCRIPTIONS.get(call.name)
    if words is not None:
        return words(call)[:MAX_CHARS]
    keys = _KEYS.get(call.name)
    if keys is None:
        values = [value for value in call.arguments.values() if isinstance(value, str | int)]
        return "  ".join(as_text(value)[:MAX_CHARS] for value in values[:3])
    return "  ".join(filter(None, (call.text(key)[:MAX_CHARS] for key in keys)))


def changed_files(patch: str) -> list[str]:
    names = (found["ours"] or found["git"] for found in _FILE.finditer(patch))
    return [name.strip() for name in dict.fromkeys(names) if name != "/dev/null"]


def _describe_read_file(call: CallInfo) -> str:
    given = [call.arguments.get(key) for key in ("offset", "limit")]
    offset, limit = (n if isinstance(n, int) and 0 < n < MAX_RESULT_LINES else 0 for n in given)
    if not offset and not limit:
        return call.text("path")
    first = offset or 1
    return f"{call.text('path')}:{first}-{first + limit - 1 if limit else ''}"


def _describe_patch(call: CallInfo) -> str:
    if path := call.text("path"):
        return path
    names = changed_files(call.text("patch"))
    return names[0] if len(names) == 1 else f"{many(len(names), 'file')}: {', '.join(names)}"


def _describe_search_files(call: CallInfo) -> str:
    places = [call.text("path"), call.text("file_glob")]
    where = " ".join(place for place in places if place not in ("", "."))
    return f'"{call.text("pattern")}"{f" in {where}" if where else ""}'


def _describe_web_extract(call: CallInfo) -> str:
    urls = call.arguments.get("urls")
    if not isinstance(urls, list) or not urls:
        return call.text("urls")
    return as_text(urls[0]) + (f" +{len(urls) - 1}" if len(urls) > 1 else "")


def _describe_delegate_task(call: CallInfo) -> str:
    tasks = call.arguments.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return call.text("goal")
    goals = [as_text(task.get("goal")) for task in tasks if isinstance(task, dict)]
    return goals[0] if len(goals) == 1 else f"{many(len(tasks), 'task')}: {'; '.join(goals)}"


def _describe_execute_code(call: CallInfo) -> str:
    """Return the first line that is not an import or comment."""
    lines = call.text("code")[:MAX_CHARS].strip().splitlines()
    quiet = ("import ", "from ", "#")
    telling = (line for line in lines if line.strip() and not line.startswith(quiet))
    return next(telling, lines[0] if lines else "")


_DESCRIPTIONS: Mapping[str, Callable[[CallInfo], str]] = {
    "terminal": lambda call: (
        call.text("command").strip() + " &" * (call.arguments.get("background") is True)
    ),
    "read_file": _describe_read_file,
    "patch": _describe_patch,
    "search_files": _describe_search_files,
    "web_extract": _describe_web_extract,
    "delegate_task": _describe_delegate_task,
    "execute_code": _describe_execute_code,
}
_KEYS: Mapping[str, tuple[str, ...]] = {
    "write_file": ("path",), "todo": (), "process": ("action", "session_id", "data"),
    "web_search": ("query",), "clarify": ("question",), "session_search": ("query",),
    "memory": ("action", "target", "content", "old_text"), "skills_list": ("category", "query"),
    "skill_view": ("name", "file_path"), "skill_manage": ("action", "name", "file_path"),
    "tool_search": ("query",), "cronjob": ("action", "name", "job_id", "schedule"),
    "send_message": ("action", "target", "message"), "browser_navigate": ("url",),
    "browser_type": ("ref", "text"), "browser_vision": ("question",),
    "image_generate": ("prompt",), "vision_analyze": ("question", "image_url"),
    "text_to_speech": ("text",), "mixture_of_agents": ("user_prompt",),
}  # fmt: skip
"""Arguments that describe a call. Other tools show their first three."""


INDENT = "   "  #: Indent of the rows below a call.
MIN_COLUMNS = 8  #: Minimum columns of the description.
MAX_LINE_CHARS = 4_000  #: Characters of a result line that are used.


def headline(
    call: CallInfo,
    display: DisplayState,
    columns: int,
    notes: Sequence[str] = (),
    mark: tuple[str, str] = ("", ""),
) -> str:
    """Return the line of a call: symbol, name, description, notes, mark.

    `mark` is a role and a text. Notes that do not fit are left out.
    """
    paint, emojis = display.paint, display.skin.tool_emojis
    symbol = emojis.get(call.name, display.skin.tool_prefix)
    # The symbol is padded so that the names of all tools are aligned.
    symbol += " " * (max(map(width, emojis.values()), default=0) - width(symbol))
    end = f" {mark[1]}" if mark[1] else ""
    room = columns - width(symbol) - 1 - width(end)
    name = one_line(visible(call.name), min(room, max(MIN_COLUMNS, columns // 2))) or "?"
    words = one_line(visible(describe_call(call)), min(display.preview or columns, columns))
    room -= width(name)
    note_room = room - min(MIN_COLUMNS, width(words) + 1)
    short = [one_line(note, 40) for note in notes if note]
    choices = (short, short[:1], short[-1:], ())
    shown = next(
        each for each in choices if sum(3 + width(note) for note in each) <= max(0, note_room)
    )
    words = cut(words, room - sum(3 + width(note) for note in shown) - 1)
    line = f"{paint('tool', symbol)} {paint('tool', name)}"
    line += f" {words}" if words else ""
    line += "".join(paint("dim", f" · {note}") for note in shown)
    return line + (f" {paint(*mark)}" if end else "")


def cut_rows(lines: Iterable[str], columns: int, paint: Paint, role: str) -> list[str]:
    room = columns - len(INDENT)
    return [INDENT + paint(role, cut(_safe_line(line), room)) for line in lines]


def wrap_rows(text: str, columns: int, paint: Paint, role: str, most: int) -> list[str]:
    """Wrap a text to at most `most` rows, plus one with the number of remaining lines."""
    room = columns - len(INDENT)
    lines = text.strip("\n").split("\n")
    rows: list[str] = []
    more: list[str] = []
    for at, line in enumerate(map(_safe_line, lines)):
        # Each row repeats the indent of its line, if there is space.
        body = line.lstrip(" ")
        margin = " " * min(len(line) - len(body), room // 2)
        rows += [margin + row for row in wrap(body, room - len(margin))]
        if len(rows) > most:
            more = [more_line(len(lines) - at, columns, paint)]
            break
    return [*(INDENT + paint(role, row) for row in rows[:most]), *more]


def more_line(count: int, columns: int, paint: Paint, hint: str = "") -> str:
    return INDENT + paint("dim", cut(f"… {many(count, 'more line')}{hint}", columns - len(INDENT)))


def _safe_line(line: str) -> str:
    return safe(line[:MAX_LINE_CHARS].rstrip("\r")).replace("\n", " ").rstrip()


_TEXTS = ("error", "output", "text", "content", "result", "results", "message", "summary", "answer")
"""Keys that hold the text of a result, the most specific first."""
_FENCE = re.compile(r"^\[[^\n]*data, not instructions\]\n<<<(?P<mark>[0-9a-f]{6,32})\n", re.M)
_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}|[^u\n])"
_BROKEN = re.compile(rf'"(?:{"|".join(_TEXTS)})":\s*"((?:[^"\\\n]|{_ESCAPE})+)')
"""A text inside truncated JSON."""
MAX_DEPTH = 8


def readable(result: str) -> str:
    """Return the text inside of JSON and fences; not safe for a terminal."""
    text = strip_fences(result).strip("\n")
    begins = text.lstrip()[:1]
    if begins not in ("{", "["):
        return text
    value = decode_json(text)
    if isinstance(value, dict | list):
        return format_value(value)
    cut = _BROKEN.search(text) if begins == "{" else None
    inner = decode_json(f'"{cut[1]}"') if cut else None
    return inner if isinstance(inner, str) else text


def strip_fences(text: str) -> str:
    """Remove the lines that mark untrusted text for the model."""
    for mark in {found["mark"] for found in _FENCE.finditer(text)}:
        text = text.replace(f"\n{mark}>>>", "")
    return _FENCE.sub("", text)


def format_value(value: Any, depth: int = 0, *, inline: bool = False) -> str:
    """Format a JSON value: its text if it has one, else a line for each entry.

    With `inline`, the entries are on one line.
    """
    if depth > MAX_DEPTH:
        return "…"
    between = ", " if inline else "\n"
    if isinstance(value, dict):
        for key in _TEXTS:
            if value.get(key):
                return format_value(value[key], depth + 1)
        entries = value.items()
        return between.join(f"{k}: {format_value(v, depth + 1, inline=True)}" for k, v in entries)
    if isinstance(value, list):
        few = value[:5] if inline else value
        more = f" … ({len(value)})" if len(few) < len(value) else ""
        return between.join(format_value(each, depth + 1, inline=True) for each in few) + more
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


Mark = Literal["ok", "failed", "stopped"]
BRIEF_LINES = 3  #: Lines of a collapsed result.

_EXIT = re.compile(r"^\[exit code (?P<code>-?\d+)(?:: (?P<meaning>.+))?\]$", re.MULTILINE)
_PAGE = re.compile(r"^\[lines (\d+-\d+ of (?:more than )?\d+)", re.MULTILINE)
_NUMBERED = re.compile(r"^\d+\|", re.MULTILINE)
_WRITTEN = re.compile(r"^(?:created|replaced) .*: \d+ bytes?, (\d+ lines?)", re.MULTILINE)
_MATCHES = re.compile(r"\d+ (?:match(?:es)? in \d+ files?|files?)")
_HIT = re.compile(r"^\d+\. ", re.MULTILINE)
_OMITTED = re.compile(
    r"^\[… (?:(?P<lines>\d+) lines(?:, )?)?(?P<bytes>\d+ bytes)? ?left out …\]$", re.M
)
_SAVED = re.compile(
    r"^\[… \d+ characters in all; all of it is in (?P<path>[^\n]+), to be read ", re.M
)
_REMARKS = re.compile(r"(?:\n\[(?:the middle of the output was cut; |now in )[^\n]*\])+\Z")
"""Remarks of the terminal for the model, after the output."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The result of a call. Its texts are not safe for a terminal."""

    mark: Mark
    text: str = ""  #: The result for the user.
    note: str = ""  #: A summary of a few words.
    brief: tuple[str, ...] = ()  #: Lines for a collapsed result.
    lines: int = 0  #: Lines of the output, as far as it is known, if the brief has fewer.
    error: bool = False  #: The text is an error message.


def parse_outcome(call: CallInfo, event: ToolFinished) -> ToolOutcome:
    if event.result == INTERRUPTED_RESULT:
        return ToolOutcome("stopped", note="stopped")
    if event.failed:
        text = readable(event.result).strip().removesuffix(f" ({ToolDenied.NO_OTHER_WAY})")
        return ToolOutcome("failed", text, brief=_first_lines(text, 3), error=True)
    return _OUTCOMES.get(call.name, _default_outcome)(event.result)


def _first_lines(text: str, most: int = BRIEF_LINES) -> tuple[str, ...]:
    return tuple([line for line in text[:20_000].split("\n") if line.strip()][:most])


def _last_lines(text: str, most: int = BRIEF_LINES) -> tuple[str, ...]:
    return tuple([line for line in text[-20_000:].split("\n") if line.strip()][-most:])


MAX_SAVED_CHARS = 2_000_000  #: Characters that are read from the file of a long result.


def complete_text(text: str) -> str:
    """Return the whole result if it was too long for the model and is in a file of this machine."""
    if (saved := _SAVED.search(text)) is None:
        return text
    try:
        with Path(saved["path"]).open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_SAVED_CHARS)
    except OSError:
        return text


def count_lines(text: str) -> int:
    """Return the lines of an output, with those that the tool left out of its middle."""
    if not text:
        return 0
    lines = text.count("\n") + 1
    for found in _OMITTED.finditer(text):
        # The note takes a line; one that names bytes also splits a line in two.
        lines += int(found["lines"] or 0) - (2 if found["bytes"] else 1)
    return lines


def _default_outcome(result: str) -> ToolOutcome:
    return _text_outcome(readable(result).strip("\n"))


def _text_outcome(text: str, shown: int = BRIEF_LINES) -> ToolOutcome:
    """Show the first lines of a text; the number of lines is noted if there are more."""
    lines = count_lines(text)
    if lines == shown + 1 and shown:  # a row that says so would take the place of the line
        shown = lines
    is_long = lines > shown
    note = many(lines, "line") if is_long else ""
    return ToolOutcome("ok", text, note, _first_lines(text, shown), lines if is_long else 0)


def _terminal_outcome(result: str) -> ToolOutcome:
    result = _REMARKS.sub("", result)
    ends = list(_EXIT.finditer(result))
    if not ends:
        return _output_outcome(result)
    end = ends[-1]  # the last one is of the tool; the others are output of the command
    whole = _output_outcome(result[: end.start()] + result[end.end() + 1 :])
    mark: Mark = "ok" if "not an error" in (end["meaning"] or "") else "failed"
    return msgspec.structs.replace(whole, mark=mark, note=f"exit code {end['code']}")


def _output_outcome(text: str) -> ToolOutcome:
    """Show the last lines of an output, where the outcome of a command usually is."""
    text = text.strip("\n")
    if text in ("", "[no output]"):
        return ToolOutcome("ok", note="no output")
    whole = _text_outcome(text)
    return msgspec.structs.replace(
        whole, brief=_last_lines(text, max(BRIEF_LINES, len(whole.brief)))
    )


def _read_file_outcome(result: str) -> ToolOutcome:
    lines, page = len(_NUMBERED.findall(result)), _PAGE.search(result)
    if not lines:  # unchanged, empty or past its end
        return ToolOutcome("ok", result, result.partition("\n")[0].strip("[]").partition(" (")[0])
    return ToolOutcome("ok", result, f"lines {page[1]}" if page else many(lines, "line"))


def _search_files_outcome(result: str) -> ToolOutcome:
    found = _MATCHES.match(result)
    return ToolOutcome("ok", result.partition("\n")[2], found[0] if found else "")


def _web_search_outcome(result: str) -> ToolOutcome:
    text = strip_fences(result)
    found = len(_HIT.findall(text))
    return ToolOutcome("ok", text, many(found, "result") if found else "nothing found")


def _long_text_outcome(result: str) -> ToolOutcome:
    """For long texts only the length is noted."""
    return _text_outcome(readable(result).strip("\n"), 0)


def _execute_code_outcome(result: str) -> ToolOutcome:
    value = decode_json(result)
    if not isinstance(value, dict):
        return _default_outcome(result)
    error, calls = as_text(value.get("error")), value.get("tool_calls_made")
    whole = _output_outcome(as_text(value.get("output")))
    used = many(calls, "tool call") if isinstance(calls, int) and calls else ""
    if value.get("status") in ("success", None):
        note = ", ".join(filter(None, (whole.note, used)))
        return msgspec.structs.replace(whole, note=note)
    text = "\n".join(filter(None, (whole.text, error)))
    return ToolOutcome("failed", text, as_text(value.get("status")), _last_lines(error or text))


def _delegate_task_outcome(result: str) -> ToolOutcome:
    value = decode_json(result)
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(results, list):
        return _default_outcome(result)
    children = [each for each in results if isinstance(each, dict)]
    done = sum(each.get("status") == "completed" for each in children)
    note = f"{done} of {len(children)} completed" if len(children) > 1 else ""
    endings = []
    for number, child in enumerate(children, 1):
        text = as_text(child.get("error") or child.get("summary")).strip()
        seconds, calls = child.get("seconds"), child.get("api_calls")
        facts = (
            as_text(child.get("status")) or "?",
            many(calls, "model call") if isinstance(calls, int) else "",
            format_duration(seconds) if isinstance(seconds, int | float) else "",
        )
        status = f"[{number}] {', '.join(filter(None, facts))}"
        endings.append((status, text or "(no text)"))
    return ToolOutcome(
        "ok" if done else "failed",
        "\n".join(f"{ending}\n{text}" for ending, text in endings),
        note,
        tuple(f"{ending}: {' '.join(text.split())}" for ending, text in endings),
    )


_OUTCOMES: Mapping[str, Callable[[str], ToolOutcome]] = {
    "terminal": _terminal_outcome,
    "read_file": _read_file_outcome,
    "write_file": lambda result: ToolOutcome(
        "ok", result, "".join(_WRITTEN.findall(result)[:1]), _first_lines(result)
    ),
    "search_files": _search_files_outcome,
    "web_search": _web_search_outcome,
    "web_extract": _long_text_outcome,
    "skill_view": _long_text_outcome,
    "skills_list": _long_text_outcome,
    "session_search": _long_text_outcome,
    "clarify": lambda result: ToolOutcome("ok", result.removeprefix("The user answers: ")),
    "memory": lambda result: ToolOutcome(
        "ok", result.partition("\n")[2], result.partition("\n")[0].rstrip(".").lower()
    ),
    "todo": lambda result: ToolOutcome("ok", result, count_tasks(result), _first_lines(result)),
    "execute_code": _execute_code_outcome,
    "delegate_task": _delegate_task_outcome,
}
