"""What is kept of conversations and of the built-in notes."""

import logging
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from hermes.core.errors import ToolError
from hermes.core.marks import COMPACTED, NOT_THE_USER
from hermes.memory.holographic.fact import NOTES, SAID
from hermes.memory.holographic.facts import Facts
from hermes.memory.holographic.statements import Statement, stated
from hermes.memory.holographic.words import telling
from hermes.memory.recalled import without_fences
from hermes.security.injection import scan

log = logging.getLogger(__name__)

NOTED = 0.7
"""How far a note is trusted at first."""
MIRRORED = ("memory", "user", "project")
"""Notes on a chat belong to all in it, not to the user."""
REPLACED = 0.4
"""Share of words by which the note is found that another replaced."""


def checked(text: str) -> str:
    """`text`, if it may be kept. Raises `ToolError`."""
    if findings := scan(text):
        raise ToolError(
            f"not kept: this reads like a prompt injection ({', '.join(findings)})",
            hint="keep plain facts, in your own words",
        )
    if import_module("hermes.security.redaction").Redactor().redact(text) != text:
        raise ToolError("not kept: there is a secret in it", hint="keys belong into .env")
    return text


def statements_in(message: str) -> list[Statement]:
    """What a message of the user says that may be kept."""
    kept: list[Statement] = []
    for statement in stated(without_fences(message)):
        try:
            checked(statement.text)
        except ToolError as error:
            log.info("a statement of the user was left out: %s", error)
        else:
            kept.append(statement)
    return kept


def statements_of(messages: list[dict[str, Any]]) -> list[Statement]:
    """The same for all the user said in a conversation."""
    return [statement for message in _said(messages) for statement in statements_in(message)]


def hear(facts: Facts, statements: Sequence[Statement], session: str) -> None:
    """What the user just said."""
    for statement in statements:
        facts.add(statement.text, source=SAID, session=session, level=statement.trust)


def reread(facts: Facts, statements: Sequence[Statement], session: str) -> None:
    """What the user said earlier; what was heard then is not heard again."""
    for statement in statements:
        facts.consider(statement.text, source=SAID, session=session, level=statement.trust)


def mirror(facts: Facts, action: str, target: str, content: str, session: str) -> None:
    """A change of the built-in notes."""
    if target not in MIRRORED:
        return
    source = f"{NOTES}{target}"
    if action == "remove":
        found = facts.table.same(content)
        if found is not None:
            facts.forget(found.id)
        return
    if action == "replace":
        _drop_replaced(facts, source, content)
    try:
        facts.add(checked(content), source=source, session=session, level=NOTED)
    except ToolError as error:  # the notes have it, which is enough
        log.info("a note was left out: %s", error)


def _drop_replaced(facts: Facts, source: str, content: str) -> None:
    """The note that `content` stands for now: nobody says which one, so the most similar one."""
    new = set(telling(content))
    best, most = 0, REPLACED
    for fact in facts.table.where("source = ?", source):
        old = set(telling(fact.text))
        share = len(new & old) / max(1, len(new | old))
        if share > most:
            best, most = fact.id, share
    if best:
        facts.forget(best)


def _said(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, list):
            texts = (part.get("text") for part in content if isinstance(part, dict))
            content = "\n".join(text for text in texts if isinstance(text, str))
        if isinstance(content, str) and not content.startswith((COMPACTED, *NOT_THE_USER)):
            yield content
