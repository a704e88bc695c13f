"""The facts about a service, and the tools it brings."""

from collections.abc import Callable
from typing import Any

import msgspec

from hermes.memory.provider import Dict
from hermes.memory.services.text import question

MOST_FOUND = 10
"""By a tool."""


class ServiceTool(msgspec.Struct, frozen=True):
    """A tool with one text to say."""

    name: str
    description: str
    argument: str
    run: Callable[[Any, str], Dict]
    """Takes the provider and the text; returns what is told to the model. May raise
    `ServiceError`."""

    def schema(self) -> Dict:
        properties = {self.argument: {"type": "string"}}
        parameters = {"type": "object", "properties": properties, "required": [self.argument]}
        return {"name": self.name, "description": self.description, "parameters": parameters}


class About(msgspec.Struct, frozen=True):
    name: str
    title: str
    tools: tuple[ServiceTool, ...]
    key: str = ""
    """The variable of its key."""
    key_url: str = ""
    """Where to get one."""
    address: str = ""
    """Of the vendor's server."""
    address_variable: str = ""
    own_server: bool = False
    """Whether people run their own, which may need no key."""


def searching(name: str) -> ServiceTool:
    def run(service: Any, query: str) -> Dict:
        return {"found": [each["text"] for each in service.search(question(query), MOST_FOUND)]}

    return ServiceTool(name, "Search what is known of the user.", "query", run)


def learning(name: str) -> ServiceTool:
    def run(service: Any, fact: str) -> Dict:
        service.learn(fact)
        return {"kept": fact}

    return ServiceTool(name, "Keep a lasting fact about the user.", "fact", run)
