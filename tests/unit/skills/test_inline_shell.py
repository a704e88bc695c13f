import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hermes.skills.loader import MAX_SNIPPET_OUTPUT, MAX_SNIPPETS, SnippetShell, run_snippets


def shell(folder: Path, timeout: float = 10, **variables: str) -> SnippetShell:
    return SnippetShell(folder, {"PATH": os.environ["PATH"], **variables}, timeout)


async def test_output_takes_the_place_of_the_snippet(tmp_path: Path):
    (tmp_path / "notes").write_text("hello")
    text = await run_snippets(
        "Here: !`ls`. Variable: !`echo $X`, twice !`cat notes`!", shell(tmp_path, X="7")
    )
    assert text == "Here: notes. Variable: 7, twice hello!"


@pytest.mark.parametrize(
    "text", ["no snippet", "`code`", "wow!`x`", "!!`x`", "\\!`echo x`", "!`a\nb`", "!``"]
)
async def test_what_is_no_snippet_stays(tmp_path: Path, text: str):
    assert await run_snippets(text, shell(tmp_path)) == text


async def test_only_the_given_environment_is_seen(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hidden")
    assert await run_snippets("!`echo [$SECRET_KEY]`", shell(tmp_path)) == "[]"


async def test_failures_say_so(tmp_path: Path):
    text = await run_snippets("!`echo out; echo wrong >&2; exit 3` !`false`", shell(tmp_path))
    assert text == "[inline-shell error: exit code 3: wrong] [inline-shell error: exit code 1]"
    missing = await run_snippets("!`ls`", shell(tmp_path / "gone"))
    assert missing.startswith("[inline-shell error: ")


async def test_output_is_cut(tmp_path: Path):
    text = await run_snippets("!`seq 1 9999`", shell(tmp_path))
    assert len(text) == MAX_SNIPPET_OUTPUT
    assert text.startswith("1\n2\n") and text.endswith("…")


async def test_a_flood_is_stopped(tmp_path: Path):
    text = await run_snippets("!`yes`", shell(tmp_path, timeout=60))
    assert len(text) == MAX_SNIPPET_OUTPUT and text.startswith("y\ny\n")


async def test_after_the_time_limit_everything_it_started_is_gone(tmp_path: Path, gone: Any):
    text = await run_snippets(
        "!`sleep 60 & echo $! > child; echo $$ > parent; wait`", shell(tmp_path, timeout=0.5)
    )
    assert text == "[inline-shell error: no result after 0.5 s]"
    for name in ("child", "parent"):
        await gone(int((tmp_path / name).read_text()))


async def test_what_is_left_in_the_background_does_not_hold_up_the_output(
    tmp_path: Path, gone: Any
):
    text = await run_snippets("!`sleep 60 & echo $!`", shell(tmp_path, timeout=0.5))
    await gone(int(text))


async def test_a_cancelled_load_leaves_nothing_behind(tmp_path: Path, gone: Any):
    task = asyncio.create_task(
        run_snippets("!`echo $$ > pid; sleep 60`", shell(tmp_path, timeout=60))
    )
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_there_are_only_so_many_snippets(tmp_path: Path):
    text = await run_snippets("!`echo x` " * (MAX_SNIPPETS + 1), shell(tmp_path))
    assert text.count("x ") == MAX_SNIPPETS
    assert text.endswith(f"[inline-shell error: a text may have {MAX_SNIPPETS} snippets] ")
