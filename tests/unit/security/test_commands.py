"""Which command lines are asked about, which are refused, and which pass."""

from pathlib import Path

import pytest

from hermes.core.tool import Concern
from hermes.security.commands import SHOWN, examine_command, one_concern
from hermes.security.paths import Guard

FOLDER = Path(__file__).parent
GUARD = Guard(Path("/home/u"), (Path("/home/u/work"),), (Path("/home/u/.hermes"),))


def corpus(name: str) -> list[str]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line.replace("⏎", "\n") for line in lines if line and not line.startswith("#")]


DANGEROUS = corpus("dangerous.txt")
HARMLESS = corpus("harmless.txt")


def examined(command: str) -> list[Concern]:
    return examine_command(command, GUARD, "/home/u/work")


@pytest.mark.parametrize("line", DANGEROUS)
def test_danger_is_seen(line: str) -> None:
    kind, _, command = line.partition(" :: ")
    found = {(concern.kind, concern.refused) for concern in examined(command)}
    assert (kind.removeprefix("!"), kind.startswith("!")) in found


@pytest.mark.parametrize("command", HARMLESS)
def test_everyday_commands_pass(command: str) -> None:
    assert examined(command) == []


def test_the_corpus_is_big_enough() -> None:
    assert len(set(DANGEROUS)) >= 80
    assert len(set(HARMLESS)) >= 80


def test_refusals_come_first_and_stand_alone() -> None:
    concerns = examined("sudo rm -rf /")
    assert [concern.refused for concern in concerns] == sorted(
        (concern.refused for concern in concerns), reverse=True
    )
    combined = one_concern(concerns)
    assert combined is not None
    assert (combined.kind, combined.refused, combined.also) == ("disk wipe", True, ())


def test_several_classes_become_one_question() -> None:
    combined = one_concern(examined("sudo rm -r build"))
    assert combined is not None
    assert {combined.kind, *combined.also} == {"privileges", "recursive delete"}
    assert "deletes folders" in combined.reason
    assert "rights of another user" in combined.reason
    assert one_concern([]) is None


def test_a_link_to_our_settings_is_seen_through(tmp_path: Path) -> None:
    own = tmp_path / ".hermes"
    own.mkdir()
    (own / "config.yaml").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").symlink_to(own / "config.yaml")
    guard = Guard(tmp_path, (tmp_path / "work",), (own,))
    concerns = examine_command("echo x >> notes", guard, str(tmp_path / "work"))
    assert (concerns[0].kind, concerns[0].refused) == ("own policy", True)


def test_deep_nesting_is_never_taken_for_safe() -> None:
    nested = "eval " * 12 + "ls"
    assert [concern.kind for concern in examined(nested)] == ["unreadable command"]


@pytest.mark.parametrize(
    "command",
    ["$(" * 60 + "rm -rf /" + ")" * 60, "$(" * 400 + "rm -rf /" + ")" * 400, "sudo " * 5_000 + "ls",
     "rm -r " + "{a,b}" * 40, "cat <<A\n" * 50, "(" * 2_000],
)  # fmt: skip
def test_a_command_built_to_tire_it_out_is_asked_about(command: str) -> None:
    assert examined(command)


def test_a_very_long_command_is_shown_shortened() -> None:
    (concern,) = examined("rm -r " + "x" * 10_000)
    assert len(concern.subject) <= SHOWN + 2


@pytest.mark.parametrize("command", ["", " ", "\n", "#", "\\", "'", "$(", "é", "\udce9", "&&", "{"])
def test_odd_text_does_not_break_it(command: str) -> None:
    assert isinstance(examined(command), list)
