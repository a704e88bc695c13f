"""docs/guide/first-hour.md, typed line by line into a shell in a terminal."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.emulated import Emulated

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "guide" / "first-hour.md"
BLOCK = re.compile(
    r"^(?P<marker><!-- not run: [^>]+ -->\n)?```text\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SERVE = "$ ./hermes lab serve --port 8100 --script "
PORT, OMITTED = "8100", "[…]"
VARIES = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}|\d+s ago|\s+")
"""Session ids, ages and spaces."""


def blocks() -> list[list[str]]:
    """The lines of each block that is typed."""
    found = BLOCK.finditer(PAGE.read_text("utf-8"))
    return [match["text"].splitlines() for match in found if not match["marker"]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The scripted server of the page; its port and its log."""
    (command,) = [line for block in blocks() for line in block if line.startswith(SERVE)]
    script = REPO / command.removeprefix(SERVE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    log = tmp_path / "server.log"
    with log.open("w") as output:
        words = ("lab", "serve", "--port", port, "--script", str(script))
        process = subprocess.Popen([sys.executable, "-m", "hermes", *words], stdout=output)
        try:
            yield port, log
        finally:
            process.terminate()
            process.wait()


def follow(it: Emulated, line: str) -> None:
    """Type the line if the terminal waits for it, and wait until it is shown otherwise."""

    def prompt() -> str:
        row = it.screen.display[it.screen.cursor.y][: it.screen.cursor.x]
        return row if row.strip() and line.startswith(row.rstrip()) else ""

    def is_shown() -> bool:
        wanted = VARIES.sub(" ", line).strip()
        return any(wanted in VARIES.sub(" ", row) for row in it.everything)

    if line.startswith(("$ ", "❯ ")):
        it.wait(lambda _: prompt(), f"the prompt for {line!r}")
    else:
        it.wait(lambda _: prompt() or is_shown(), repr(line))
    if given := prompt():
        it.settled(0.2).say(line[len(given.rstrip()) :].strip())


def test_the_page_can_be_followed_literally(
    tmp_path: Path, user_home: Path, server: tuple[str, Path]
) -> None:
    port, log = server
    clone = user_home / "hermes"
    clone.mkdir()
    (clone / "hermes").write_text(f"#!/bin/sh\nexec '{sys.executable}' -m hermes \"$@\"\n")
    (clone / "hermes").chmod(0o755)
    shell = ["bash", "--norc", "--noprofile"]
    it = Emulated(shell, clone, columns=110, rows=45, PS1="$ ", HOME=str(user_home))
    try:
        for line in (
            line for block in blocks() for line in block if block[0][: len(SERVE)] != SERVE
        ):
            if line == OMITTED or not line.strip():
                continue
            if line.startswith("❯ rye"):  # the title of the conversation is the third reply
                it.wait(lambda _: log.read_text().count("POST") == 3, "the title")
            follow(it, line.replace(PORT, port))
        it.wait(lambda _: "POST" in log.read_text(), "a request")
    finally:
        it.close()
    assert (user_home / "notes" / "shopping.txt").read_text() == "milk\nbread\napples\n"
