"""When a process began: what tells it from a later one with the same number."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from hermes.util.processes import process_began, this_machine


def test_a_process_that_is_not_there_never_began() -> None:
    assert process_began(2**22 + 1) == ""
    assert process_began(os.getpid()) == process_began(os.getpid()) != ""
    assert process_began(1) != process_began(os.getpid())


def test_a_process_that_nobody_has_waited_for_is_gone() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        began = process_began(process.pid)
        assert process.stdin is not None
        process.stdin.close()  # now it ends
        while process_began(process.pid) == began:
            time.sleep(0.01)
        assert process_began(process.pid) == ""


def test_a_process_of_somebody_else_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(path: Path, *_: object, **__: object) -> str:
        if path.match("/proc/*/stat"):
            raise FileNotFoundError(path)
        return "boot"

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", hidden)
    assert process_began(2**22 + 1) == ""
    monkeypatch.setattr(os, "kill", refused)
    assert process_began(2**22 + 1) is None


def test_the_name_of_this_machine_stays() -> None:
    assert this_machine() == this_machine()
    assert ":" not in this_machine()
