"""The scripts for Apple's apps, run by node with a stand-in for the app: there is no Mac here."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bundled_skills.pages import script
from tests.cases import cases

CASES = cases(__file__)

NOTES = Path(__file__).with_name("apple_notes.js").read_text("utf-8")
REMINDERS = Path(__file__).with_name("apple_reminders.js").read_text("utf-8")


@pytest.fixture
def osascript(tmp_path: Path):
    """`osascript("apple-notes/notes.js", NOTES, "folders")` gives the process that has ended."""
    node = shutil.which("node")
    if not node:
        pytest.skip("needs node")

    def osascript(path: str, app: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        call = f"\nconsole.log(run({json.dumps(arguments)}));\n"
        program = tmp_path / "program.js"
        program.write_text(f"{{{app}}}\n" + script(path).read_text(encoding="utf-8") + call)
        return subprocess.run(
            [node, program], capture_output=True, encoding="utf-8", timeout=30, env={"TZ": "UTC"}
        )

    return osascript


def test_notes_are_found_read_and_made(osascript) -> None:
    notes = "apple-notes/notes.js"
    assert json.loads(osascript(notes, NOTES, "folders").stdout) == ["Notes"]
    found = json.loads(osascript(notes, NOTES, "search", "GREEN", "leaves").stdout)
    assert [each["name"] for each in found] == ["Tea"]
    assert json.loads(osascript(notes, NOTES, "read", "x-coredata://Tea").stdout)[
        "text"
    ].strip() == ("green leaves")
    assert json.loads(osascript(notes, NOTES, "create", "Notes", "A & B", "x\n<y>").stdout)[
        "name"
    ] == ("A & B")


@pytest.mark.parametrize(("arguments", "text"), CASES["impossible note actions are refused"])
def test_impossible_note_actions_are_refused(osascript, arguments, text):
    done = osascript("apple-notes/notes.js", NOTES, *arguments)
    assert done.returncode == 1
    assert text in done.stderr


def test_reminders_are_listed_by_day_and_added(osascript) -> None:
    reminders = "apple-reminders/reminders.js"
    found = json.loads(osascript(reminders, REMINDERS, "open").stdout)
    assert [each["name"] for each in found] == ["Tea", "Old"]
    made = osascript(reminders, REMINDERS, "add", "Home", "Call", "2024-05-03 15:00", "Number")
    assert json.loads(made.stdout)["due"] == "2024-05-03T15:00:00.000Z"
    day = osascript(reminders, REMINDERS, "add", "Home", "Call", "2024-05-03")
    assert json.loads(day.stdout)["due"] == "2024-05-03T09:00:00.000Z"


@pytest.mark.parametrize(("arguments", "text"), CASES["wrong reminders are refused"])
def test_wrong_reminders_are_refused(osascript, arguments: tuple[str, ...], text: str) -> None:
    done = osascript("apple-reminders/reminders.js", REMINDERS, *arguments)
    assert done.returncode == 1
    assert text in done.stderr
