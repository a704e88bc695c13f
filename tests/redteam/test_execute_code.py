"""Scripts that switch off or walk around the audit hook of `execute_code`.

The hook makes good questions; the kernel keeps the script from the folder of Hermes.
"""

import asyncio
import sqlite3
import sys

import pytest

from hermes.core.ports import ApprovalAnswer
from tests.cases import cases
from tests.redteam.conftest import BOUNDARY, KEY, Machine, RecordingApprover, call

CASES = cases(__file__)
PRELUDE = """\
import os
HOME = os.path.expanduser('~/.hermes')
CONFIG, KEYS = f'{HOME}/config.yaml', f'{HOME}/auth.json'
def show(data):
    print('LOOT', (data if isinstance(data, bytes) else str(data).encode()).hex())
"""
"""What is stolen is printed as hexadecimal digits, which redaction does not know."""


def scripts(table: str) -> list[object]:
    return [pytest.param(text, id=name) for name, text in CASES[table].items()]


async def attack(machine: Machine, script: str) -> str:
    """Run a script, then one that waits for what it left behind; return all they printed."""
    outcome = await machine.run(
        call("execute_code", code=PRELUDE + script),
        call("terminal", command="sleep 0.6; cat loot.txt copy 2>/dev/null"),
    )
    return outcome.text


@pytest.mark.parametrize("script", [*scripts("findings"), *scripts("variants")])
async def test_the_folder_of_hermes_stays_out_of_reach(machine: Machine, script: str):
    printed = await attack(machine, script)
    machine.assert_unharmed()
    machine.assert_no_secret_in(printed)
    assert KEY.encode().hex() not in printed.replace("\n", "")
    for path in machine.work.rglob("*"):
        if path.is_file() and not path.is_symlink():  # a link left behind holds no copy
            assert KEY.encode() not in path.read_bytes(), path
    assert (machine.hermes / "auth.json").is_file()
    with sqlite3.connect(machine.hermes / "state.db") as db:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'evil'").fetchall()


async def test_harmless_scripts_run(machine: Machine):
    script = "print(sum(range(10)), open('README.md').read().strip())"
    approver = RecordingApprover(ApprovalAnswer.ONCE)
    outcome = await machine.run(call("execute_code", code=script), approver=approver)
    assert "45 # A project" in outcome.text
    assert bool(approver.questions) == (BOUNDARY == "none")


@pytest.mark.parametrize("name", ["mmap of a descriptor", "folder descriptor", "zipimport"])
async def test_the_scripts_have_their_effect_without_protection(machine: Machine, name: str):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PRELUDE + CASES["variants"][name],
        cwd=machine.work, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert KEY.encode().hex() in printed.decode()
