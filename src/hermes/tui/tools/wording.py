"""What a tool call is about, in a few words."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hermes.tui.tools.calls import Call, as_text
from hermes.util.text import many

MOST = 4_000
"""Characters that are looked at: only a line of them is shown."""
MOST_LINES = 1_000_000_000
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
    return value if isinstance(value, int) and 0 < value < MOST_LINES else 0


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
