"""A failed set-up step ends with its last lines and what to do next."""

import os
from pathlib import Path

import pytest

from scripts import setup


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("The virtual environment was not created: ensurepip is not available.", "python3-venv"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error: Permission denied (os error 13)", "not yours to write"),
        ("Failed to establish a new connection", "check the network connection"),
    ],
)
def test_failure_is_explained(output: str, hint: str) -> None:
    with Path(os.devnull).open() as held, pytest.raises(setup.SetupFailed) as failure:
        setup.run(["sh", "-c", f"echo '{output}'; exit 3"], held.fileno())
    *tail, last = str(failure.value).splitlines()
    assert tail == [f"  {output}"]
    assert last.startswith("hermes: set-up failed; ")
    assert hint in last


def test_only_the_end_of_long_output_is_shown() -> None:
    with Path(os.devnull).open() as held, pytest.raises(setup.SetupFailed) as failure:
        setup.run(["sh", "-c", "seq 100; exit 1"], held.fileno())
    assert len(str(failure.value).splitlines()) == setup.OUTPUT_TAIL + 1
