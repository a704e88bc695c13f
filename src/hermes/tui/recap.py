"""What was said so far, in short, when a conversation is taken up again."""

from collections.abc import Sequence

from hermes.core.messages import Assistant, Message, User
from hermes.tui.cells import one_line, safe
from hermes.tui.paint import Paint
from hermes.util.text import many

EXCHANGES = 10
USER_CHARS = 300
ANSWER_CHARS, ANSWER_LINES = 200, 3


def recap(
    history: Sequence[Message], paint: Paint, columns: int, symbol: str, most: int = EXCHANGES
) -> list[str]:
    """The last exchanges: what was asked, and how the answers begin."""
    starts = [at for at, message in enumerate(history) if isinstance(message, User)]
    shown = starts[-most:]
    if not shown:
        return []
    lines: list[str] = []
    if earlier := len(starts) - len(shown):
        lines.append(paint("dim", f"… {many(earlier, 'earlier question')}"))
    for start, end in zip(shown, [*shown[1:], len(history)], strict=True):
        lines += _exchange(history[start:end], paint, columns, symbol)
    return lines


def _exchange(part: Sequence[Message], paint: Paint, columns: int, symbol: str) -> list[str]:
    asked = part[0]
    text = User(asked.said).text if isinstance(asked, User) else ""
    lines = [f"{paint('prompt', symbol)} {paint('user', _short(text, USER_CHARS, 1)[0])}"]
    replies = [message for message in part[1:] if isinstance(message, Assistant)]
    if calls := sum(len(reply.calls) for reply in replies):
        lines.append(paint("dim", f"  ● {many(calls, 'tool call')}"))
    answer = next((reply.text for reply in reversed(replies) if reply.text.strip()), "")
    begun = _short(answer, ANSWER_CHARS, ANSWER_LINES) if answer else []
    return [*lines, *(paint("dim", f"  {one_line(line, columns - 3)}") for line in begun)]


def _short(text: str, most: int, lines: int) -> list[str]:
    text = safe(text).strip()
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    found = [line for line in cut.split("\n") if line.strip()] or [""]
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], f"{found[lines - 1]} …"] if lines > 1 else [f"{found[0]} …"]
