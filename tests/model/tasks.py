"""What the embedded model is asked to do, and how the outcome is judged.

None of these prompts is an example of `hermes.providers.small_model`: the model has to carry the
examples over to new names and new verbs.
"""

import re
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.core.messages import ToolCall

FILES = {
    "README.md": "# Shop\n\nA small shop.\n",
    "docs/install.md": "Unpack it.\n",
    "docs/usage.md": "Run it.\n",
    "server.toml": '[server]\nhost = "localhost"\nport = 9090\nworkers = 2\n',
    "src/billing.py": "def send_invoice(customer):\n    return customer\n",
    "src/cart.py": "def total(items):\n    return sum(items)\n",
    "photos/beach.jpg": "x",
    "photos/forest.jpg": "x",
    "photos/lake.jpg": "x",
    "draft.txt": "first draft\n",
    "server.log": "".join(f"request {number}\n" for number in range(37)),
    "old.tmp": "x\n",
}
"""The folder each task starts in."""

Outcome = Callable[[Path, str], bool]
"""Whether the folder and the answer are as they should be afterwards."""


class Task(msgspec.Struct, frozen=True):
    prompt: str
    calls: str
    """Regular expression that one call must match, as `name {arguments}`."""
    outcome: Outcome

    def called(self, calls: list[ToolCall]) -> bool:
        return any(re.search(self.calls, f"{call.name} {call.arguments}") for call in calls)


def says(*words: str) -> Outcome:
    return lambda _folder, answer: all(word.lower() in answer.lower() for word in words)


def says_number(number: int) -> Outcome:
    return lambda _folder, answer: re.search(rf"(?<!\d){number}(?!\d)", answer) is not None


def holds(name: str, text: str) -> Outcome:
    def check(folder: Path, _answer: str) -> bool:
        file = folder / name
        return file.is_file() and file.read_text().strip() == text

    return check


TASKS = (
    Task(
        "How many markdown files are there in this project?",
        r"^terminal .*md|^search_files .*md.*files",
        says_number(3),
    ),
    Task(
        "Create a file called greeting.txt containing the words good evening",
        r'^write_file .*"path":"(\./)?greeting.txt"|^terminal .*> ?greeting.txt',
        holds("greeting.txt", "good evening"),
    ),
    Task(
        "Which port does server.toml use?",
        r"^read_file .*server.toml|^(terminal|search_files) .*port",
        says_number(9090),
    ),
    Task(
        "Which file contains the word 'invoice'?",
        r"^search_files .*invoice|^terminal .*grep.*invoice",
        says("billing.py"),
    ),
    Task("What year is it?", r"^terminal .*date", says(str(datetime.now().astimezone().year))),
    Task(
        "List everything in the folder photos",
        r"^terminal .*(ls|find).*photos|^search_files .*photos",
        says("beach.jpg", "forest.jpg", "lake.jpg"),
    ),
    Task(
        "Copy draft.txt to backup.txt",
        r"^terminal .*cp .*draft.txt .*backup.txt",
        lambda folder, _: (folder / "backup.txt").is_file() and (folder / "draft.txt").is_file(),
    ),
    Task("How many lines are in server.log?", r"^terminal .*wc.*server.log", says_number(37)),
    Task("Calculate 4711 + 1289", r"^terminal .*4711 ?\+ ?1289", says_number(6000)),
    Task(
        "Make a new folder called results",
        r"^terminal .*mkdir .*results",
        lambda folder, _: (folder / "results").is_dir(),
    ),
    Task(
        "Delete the file old.tmp",
        r"^terminal .*rm .*old.tmp",
        lambda folder, _: not (folder / "old.tmp").exists(),
    ),
    Task(
        "Which version of Python is on this machine?",
        r"^terminal .*python3? (--version|-V)",
        says(f"{sys.version_info.major}.{sys.version_info.minor}"),
    ),
)
