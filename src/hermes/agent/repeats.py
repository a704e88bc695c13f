"""Stops a model that makes the same failing call again and again."""

from hermes.core.messages import ToolCall, ToolResult

MOST_FAILURES = 2
"""Times the same call may fail in the same way before it is not run any more."""
MOST_SAME = 4
"""Times in a row the same call may bring the same result."""
MOST_BLOCKED = 3
"""Blocked calls after which the turn goes on without tools."""
MOST_UNUSABLE = 6
"""Calls in a row that could not be run at all, for a name or arguments that are wrong."""

Key = tuple[str, str]


class Repeats:
    """The calls of one turn and what they brought."""

    def __init__(self) -> None:
        self._failures: dict[Key, int] = {}
        self._outcomes: dict[Key, str] = {}
        self._last: Key | None = None
        self._same = 0
        self._blocked = 0
        self._unusable = 0

    @property
    def hopeless(self) -> bool:
        """The model does not take the hint."""
        return self._blocked >= MOST_BLOCKED or self._unusable >= MOST_UNUSABLE

    def refuses(self, call: ToolCall) -> str:
        """Why `call` is not run once more; "" when it may."""
        key = _key(call)
        if self._failures.get(key, 0) >= MOST_FAILURES:
            times = f"failed {self._failures[key]} times in the same way"
        elif key == self._last and self._same >= MOST_SAME:
            times = f"brought the same result {self._same} times in a row"
        else:
            return ""
        self._blocked += 1
        return f"not run again: this very call {times}"

    def note_unusable(self) -> None:
        """A call named no tool, or its arguments made no sense."""
        self._unusable += 1

    def note(self, call: ToolCall, result: ToolResult, *, changes: bool) -> None:
        """`changes`: the tool can change something, after which a failed call may succeed."""
        if not result.failed:
            self._unusable = 0
        key = _key(call)
        same = self._outcomes.get(key) == result.text
        if changes and not result.failed and not same:
            self._failures.clear()
        if result.failed:
            self._failures[key] = self._failures.get(key, 0) + 1 if same else 1
        else:
            self._failures.pop(key, None)
        self._same = self._same + 1 if same and key == self._last else 1
        self._outcomes[key], self._last = result.text, key


def _key(call: ToolCall) -> Key:
    return call.name, "".join(call.arguments.split())
