"""fact_store: what the model can do with facts."""

import json
from collections.abc import Callable
from typing import Any

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.memory.holographic.fact import TOOL, Fact, day, id_in
from hermes.memory.holographic.facts import Facts
from hermes.memory.holographic.recall import Hit, related, search

NAME = "fact_store"
MOST_FOUND = 10
TRUST = 0.6
"""Of what the model adds."""

SCHEMA: dict[str, Any] = {
    "name": NAME,
    "description": "Single facts kept over sessions: people, projects, preferences. Search it "
    "before you ask the user again.",
    "parameters": {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["add", "search", "related", "update", "remove", "feedback"],
            },
            "content": {
                "type": "string",
                "description": "add, update: one fact in a sentence; search: words; related: a "
                "name or an id",
            },
            "id": {"type": "integer", "description": "update, remove, feedback"},
            "helpful": {"type": "boolean", "description": "feedback: was the fact right"},
        },
        "required": ["action"],
    },
}

Check = Callable[[str], str]
"""The text as it may be kept; raises `ToolError`."""


def answer(facts: Facts, arguments: dict[str, Any], session: str, check: Check) -> str:
    """The result of a call, as JSON. Raises `ToolError`."""
    action, content = str(arguments.get("action")), str(arguments.get("content") or "").strip()
    match action:
        case "add":
            added = facts.add(check(content), source=TOOL, session=session, level=TRUST)
            outcome: dict[str, Any] = {added.outcome: _shown(added.fact)}
            if added.replaced:
                outcome["instead_of"] = [_shown(fact) for fact in added.replaced]
        case "search" | "related":
            if not content:
                raise ToolArgumentsInvalid("content is empty", hint="say what to look for")
            look = search if action == "search" else related
            hits = look(facts.table, content, MOST_FOUND)
            facts.mark_used(hit.fact.id for hit in hits[:3])
            outcome = {"facts": [_found(hit) for hit in hits]}
        case "update":
            outcome = {"updated": _shown(_there(facts.update(_id(arguments), check(content))))}
        case "remove":
            if not facts.forget(_id(arguments)):
                _there(None)
            outcome = {"removed": _id(arguments)}
        case "feedback":
            helpful = arguments.get("helpful") is not False
            outcome = {"rated": _shown(_there(facts.rate(_id(arguments), helpful=helpful)))}
        case _:
            known = ", ".join(SCHEMA["parameters"]["properties"]["action"]["enum"])
            raise ToolArgumentsInvalid(f"there is no action {action!r}", hint=f"use {known}")
    return json.dumps(outcome, ensure_ascii=False)


def _id(arguments: dict[str, Any]) -> int:
    number = id_in(str(arguments.get("id")))
    if number is None:
        raise ToolArgumentsInvalid("id is missing or is none", hint="search shows the ids")
    return number


def _there(fact: Fact | None) -> Fact:
    if fact is None:
        raise ToolError("there is no fact of that id", hint="search shows the ids")
    return fact


def _found(hit: Hit) -> dict[str, Any]:
    return _shown(hit.fact)


def _shown(fact: Fact) -> dict[str, Any]:
    shown = {"id": fact.id, "fact": fact.text, "trust": round(fact.trust, 2)}
    shown["said"] = day(fact.confirmed)
    if fact.replaced_by:
        shown["outdated_by"] = fact.replaced_by
    return shown
