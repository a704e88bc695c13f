"""The transcripts by name, built once in a process."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import NamedTuple

from tests.compaction.talk import Dicts, Facts, Talk

NAMES = (
    "shop_in_python",
    "retries_in_go",
    "lexer_in_rust",
    "forms_in_typescript",
    "firmware_in_c",
    "warehouse_in_sql",
    "heat_pumps_report",
    "vector_stores_compared",
    "shift_work_review",
    "family_trip",
    "office_assistant",
    "gateway_outage",
    "database_upgrade",
)
PARTS = (1, 2, 3)
"""Number of continuations after the beginning of a story."""
SYSTEM = {
    "role": "system",
    "content": "You are Hermes, an agent that works with tools. Do what the user asks, step by "
    "step, and say when it is done.\n\nSession 20260314-1. The working folder is the project's.",
}


class Stretch(NamedTuple):
    """New messages, and what must be known once they were said."""

    messages: Dicts
    facts: Facts


@cache
def story(name: str) -> tuple[Stretch, ...]:
    """Return a conversation and its three continuations. The result is cached: do not change it."""
    return tuple(_stretches(name))


def _stretches(name: str) -> Iterator[Stretch]:
    module = import_module(f"tests.compaction.transcripts.{name}")
    talk = Talk(name)
    module.play(talk)
    yield Stretch([SYSTEM, *talk.take()], talk.facts)
    for part in PARTS:
        module.go_on(talk, part)
        yield Stretch(talk.take(), talk.facts)
