"""What came of a tool call."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolDenied
from hermes.core.events import ToolFinished
from hermes.core.messages import INTERRUPTED_RESULT
from hermes.tui.status_bar import duration
from hermes.tui.tools.calls import Call, as_text, decoded
from hermes.tui.tools.readable import readable, unfenced
from hermes.tui.tools.todos import counted
from hermes.util.text import many

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


def _terminal(result: str) -> Outcome:
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


def _read_file(result: str) -> Outcome:
    lines, page = len(_NUMBERED.findall(result)), _PAGE.search(result)
    if not lines:  # unchanged, empty or past its end
        return Outcome("ok", result, result.partition("\n")[0].strip("[]").partition(" (")[0])
    return Outcome("ok", result, f"lines {page[1]}" if page else many(lines, "line"))


def _write_file(result: str) -> Outcome:
    lines = _WRITTEN.search(result)
    return Outcome("ok", result, lines[1] if lines else "", _first(result))


def _search_files(result: str) -> Outcome:
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


def _execute_code(result: str) -> Outcome:
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


def _delegate_task(result: str) -> Outcome:
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
        "terminal": _terminal,
        "read_file": _read_file,
        "write_file": _write_file,
        "search_files": _search_files,
        "web_search": _web_search,
        "web_extract": _long,
        "skill_view": _long,
        "skills_list": _long,
        "session_search": _long,
        "clarify": _clarify,
        "memory": _memory,
        "todo": _todo,
        "execute_code": _execute_code,
        "delegate_task": _delegate_task,
    }
)
