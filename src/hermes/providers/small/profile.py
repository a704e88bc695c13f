"""What a small model is told: data only.

A model of half a billion parameters fails with native `tools=` and with long prompts. It does well
with a handful of tools, a page of examples and a grammar that admits nothing but a call or a reply.
"""

from typing import Any

import msgspec

REPLY = "reply"
"""The key of an answer to the user, beside the names of the tools."""


class ToolHint(msgspec.Struct, frozen=True):
    """How one known tool is shown: fewer parameters and fewer words than its full schema."""

    name: str
    about: str
    parameters: tuple[str, ...]


class Step(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, Any]
    result: str


class Example(msgspec.Struct, frozen=True):
    """One exchange shown before the conversation; left out when its tool is not offered."""

    user: str
    reply: str
    steps: tuple[Step, ...] = ()


class SmallProfile(msgspec.Struct, frozen=True):
    system: str
    hints: tuple[ToolHint, ...]
    """Known tools, the most useful first; the order decides which are offered."""
    examples: tuple[Example, ...]
    max_tools: int = 5
    max_calls: int = 6
    """Calls after one message of the user; then the model has to reply."""
    same_call: int = 2
    """How often the very same call may be made after one message of the user."""
    context: int = 4096
    """Tokens for prompt and reply together."""
    max_tokens: int = 768
    """Tokens of one reply."""
    result_tokens: int = 300
    """How much of a tool's result is shown."""
    bytes_per_token: float = 2.8
    """For estimates; low on purpose, since code and numbers take more tokens than prose."""


_READ = Example(
    "What is set in settings.json?",
    "settings.json sets the name to demo and the timeout to 30.",
    (Step("read_file", {"path": "settings.json"}, '1|{"name": "demo",\n2| "timeout": 30}'),),
)
_SEARCH = Example(
    "Where is login used?",
    "login is used in src/auth.py, line 12.",
    (
        Step(
            "search_files",
            {"pattern": "login", "target": "content"},
            "1 match in 1 file:\nsrc/auth.py:12:def login(user):",
        ),
    ),
)
_WRITE = Example(
    "Write hello.py, it should greet Bob",
    "I wrote hello.py, which greets Bob.",
    (
        Step(
            "write_file",
            {"path": "hello.py", "content": "name = 'Bob'\nprint('Hello', name)\n"},
            "created hello.py: 35 bytes, 2 lines",
        ),
    ),
)
_KNOWLEDGE = Example("What's the capital of Spain?", "The capital of Spain is Madrid.")
_COUNT = Example(
    "How many text files are here?",
    "There are 4 text files here.",
    (Step("terminal", {"command": "find . -name '*.txt' | wc -l"}, "4"),),
)
_LENGTH = Example(
    "How long is poem.txt?",
    "poem.txt has 25 lines.",
    (Step("terminal", {"command": "wc -l < poem.txt"}, "25"),),
)
_LIST = Example(
    "Show me what is here",
    "This folder contains docs, settings.json, src and tasks.md.",
    (Step("terminal", {"command": "ls"}, "docs\nsettings.json\nsrc\ntasks.md"),),
)
_CALCULATE = Example(
    "What is 12 * 9?",
    "12 * 9 is 108.",
    (Step("terminal", {"command": "echo $((12 * 9))"}, "108"),),
)
_RENAME = Example(
    "Rename todo.md to tasks.md",
    "I renamed todo.md to tasks.md.",
    (Step("terminal", {"command": "mv todo.md tasks.md"}, "[no output]"),),
)

SMALL = SmallProfile(
    system=(
        "You are Hermes, an assistant that works on the user's computer."
        " Answer with one JSON object: a tool call or a reply.\n"
        "{tools}\n"
        "- reply: the answer to the user in plain words, with the facts\n"
        "Never guess about files or this computer: call a tool first."
    ),
    hints=(
        ToolHint(
            "terminal",
            "shell command to list, count, rename, copy, delete, make folders, calculate,"
            " show the date or the system",
            ("command",),
        ),
        ToolHint("read_file", "read a text file", ("path",)),
        ToolHint("write_file", "write a new text file", ("path", "content")),
        ToolHint(
            "search_files",
            'find text in files (target "content") or files by name (target "files")',
            ("pattern", "target"),
        ),
    ),
    # The order was measured: with the terminal last, a small model stops writing files where a
    # command is meant. Change it only together with a run of `make test-model`.
    examples=(
        _READ,
        _SEARCH,
        _WRITE,
        _KNOWLEDGE,
        _COUNT,
        _LIST,
        _LENGTH,
        _CALCULATE,
        _RENAME,
    ),
)
