"""A memory provider that keeps sentences in a text file."""

import json
import re
from pathlib import Path

from agent.memory_provider import MemoryProvider

from .pages import Pages

SEARCH = {
    "name": "notebook_search",
    "description": "Look for words in what the user asked to be remembered.",
    "parameters": {
        "type": "object",
        "properties": {"words": {"type": "string"}},
        "required": ["words"],
    },
}


class Notebook(MemoryProvider):
    def __init__(self):
        self.pages = None
        self.most = 5

    @property
    def name(self):
        return "notebook"

    def is_available(self):
        return True  # a file is all it needs

    def initialize(self, session_id, **kwargs):
        home = Path(kwargs["hermes_home"])
        self.pages = Pages(home, kwargs.get("user_id") or "")
        settings = home / "notebook.json"
        if settings.exists():
            self.most = int(json.loads(settings.read_text()).get("most", self.most))

    def get_config_schema(self):
        return [
            {"key": "most", "description": "Sentences recalled into a turn", "default": "5"},
        ]

    def save_config(self, values, hermes_home):
        Path(hermes_home, "notebook.json").write_text(json.dumps(values))

    def system_prompt_block(self):
        return "The user's notebook can be searched with notebook_search."

    def prefetch(self, query):
        return "\n".join(self.pages.find(query)[: self.most])

    def sync_turn(self, user, assistant):
        for sentence in re.split(r"(?<=[.!?])\s+", user):
            if "remember" in sentence.lower():
                self.pages.add(sentence)

    def on_memory_write(self, action, target, content):
        if action == "add":
            self.pages.add(content)

    def get_tool_schemas(self):
        return [SEARCH]

    def handle_tool_call(self, name, args):
        return json.dumps({"found": self.pages.find(args["words"])})


def register(ctx):
    ctx.register_memory_provider(Notebook())
