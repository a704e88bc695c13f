"""How much can be attached."""

from pathlib import Path

import pytest

from hermes.core.errors import UsageError


async def test_a_quarter_of_the_context_is_quiet_and_more_is_warned_of(attach, workspace) -> None:
    (workspace / "a.txt").write_text("x" * 3_000)  # about 1,000 tokens
    assert (await attach("@a.txt", context_length=8_000)).warnings == ()
    done = await attach("@a.txt", context_length=3_000)
    (warning,) = done.warnings
    assert "33 % of what the model can take in" in warning or "34 %" in warning
    assert "x" * 3_000 in done.text


async def test_more_than_half_of_the_context_is_refused(attach, workspace: Path) -> None:
    (workspace / "a.txt").write_text("x" * 3_000)
    with pytest.raises(UsageError, match="the limit is 950") as refusal:
        await attach("@a.txt", context_length=1_900)
    assert "@a.txt" in refusal.value.hint


async def test_together_they_can_be_too_many(attach, workspace: Path) -> None:
    for name in "abc":
        (workspace / name).write_text(name * 3_000)
    await attach("@a @b", context_length=5_000)
    with pytest.raises(UsageError):
        await attach("@a @b @c", context_length=5_000)


async def test_a_huge_file_is_refused_without_being_read(attach, workspace: Path) -> None:
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"line\n" * 20_000)
        file.seek(50_000_000_000)  # a hole: reading all of it would take minutes
        file.write(b"end\n")
    with pytest.raises(UsageError, match=r"more than 16,666,666,668 tokens"):
        await attach("@huge.log")
    assert "(lines 3-4)\n```log\nline\nline\n```" in (await attach("@huge.log:3-4")).text


async def test_one_endless_line_is_cut_off(attach, workspace: Path) -> None:
    (workspace / "long.txt").write_bytes(b"x" * 5_000_000)
    with pytest.raises(UsageError):
        await attach("@long.txt:1")


async def test_only_so_many_references_are_followed(attach, workspace: Path) -> None:
    names = [f"f{number}" for number in range(60)]
    for name in names:
        (workspace / name).write_text(f"content of {name}\n")
    mentions = " ".join(f"@nobody{number}" for number in range(500))
    done = await attach(mentions + " ".join(f" @{name}" for name in names))
    assert done.warnings == ("only the first 50 references were looked at",)
    assert done.text.count("content of") == 50
