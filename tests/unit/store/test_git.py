"""git, run for a store of our own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.store.git_history import Git


async def test_a_git_that_is_given_up_takes_its_helpers_with_it(tmp_path: Path, gone: Any) -> None:
    """As `git-remote-http` is: it holds the pipes open and waits for a server."""
    program = tmp_path / "git"
    program.write_text('#!/bin/sh\nsleep 300 &\necho $! > "$GIT_DIR/helper"\nsleep 300\n')
    program.chmod(0o700)
    running = asyncio.create_task(Git(str(program), tmp_path, tmp_path).run("fetch"))
    while not (helper := (tmp_path / "helper")).exists() or not helper.read_text().strip():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(int(helper.read_text()))
