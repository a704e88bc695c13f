"""What is sent to a service, and what is shown of its answers."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from hermes.memory.provider import Dict, Dicts
from hermes.memory.recalled import without_fences
from hermes.memory.services.circuit import ServiceError
from hermes.util.text import clean

MOST_SENT = 20_000
"""Characters of one message; services take no more than 25,000."""
MOST_ASKED = 2_000
"""Characters of a search."""


def outgoing(text: str, limit: int = MOST_SENT) -> str:
    """`text` as it may leave this machine: without what was recalled into it, without keys."""
    own = clean(without_fences(text)).strip()
    kept: str = import_module("hermes.security.redaction").Redactor().redact(own)
    return kept[:limit]


def question(text: str) -> str:
    return outgoing(text, MOST_ASKED)


def bullets(lines: Iterable[str], limit: int) -> str:
    """Each line once, as a list of at most `limit` characters. What does not fit is left out; of
    the first line, what fits is kept."""
    shown: list[str] = []
    size = 0
    for line in dict.fromkeys(" ".join(line.split()) for line in lines):
        bullet = f"- {line}"
        if not shown and len(bullet) > limit:
            bullet = f"{bullet[: max(limit - 1, 0)].rstrip()}…"
        if line and size + len(bullet) <= limit:
            shown.append(bullet)
            size += len(bullet) + 1
    return "\n".join(shown)


def found(answer: Any, *keys: str) -> Dicts:
    """The list of objects below `keys` of an answer; none when there was no answer. Raises
    `ServiceError` when the answer has another form."""
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else answer
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ServiceError("the service answered in a form that is not understood")
    return [each for each in answer if isinstance(each, dict)]


def entry(said: Dict, *keys: str, name: str = "id") -> Dict:
    """`{"id", "text"}` of an object, the text from the first of `keys` that holds one."""
    texts = (said.get(key) for key in keys)
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return {"id": str(said.get(name) or ""), "text": text.strip()}
