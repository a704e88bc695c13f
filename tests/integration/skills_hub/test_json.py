"""Every action of `hermes skills` that has `--json` prints one JSON document, with skills there."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.cli.commands import skills_hub as command
from hermes.skills.history import SkillHistory
from hermes.skills.hub.contents import InstallRefused
from hermes.skills.index import SkillIndex
from hermes.skills.skill import skill_roots
from hermes.skills.writing.draft import DraftAction, SkillDraft
from hermes.skills.writing.writer import SkillWriter, WritingOptions
from tests.cases import cases
from tests.integration.skills_hub.samples import doubtful
from tests.integration.skills_hub.wire import GitHub, SkillsSh, below, skill
from tests.unit.skills.skill_files import put

CASES = cases(__file__)

HEAD = Path(__file__).with_name("notes.md").read_text("utf-8")
ASKED = CASES["asked"]


@pytest.fixture
def full(hermes, hermes_home: Path, github: GitHub, skills_sh: SkillsSh, tmp_path: Path) -> Path:
    """A home in which every list has something to show; the result is a snapshot of it."""
    github.commit("any/repo", {**below("pdf", skill("pdf")), **below("odd", doubtful("odd"))})
    skills_sh.entries = [{"skillId": "pdf", "name": "pdf", "source": "any/repo"}]
    put(hermes_home / "skills", "my-notes", HEAD)
    hermes("install", "any/repo/pdf", "--yes")
    with pytest.raises(InstallRefused):
        hermes("install", "any/repo/odd", "--yes")
    hermes("tap", "add", "any/repo")
    home = hermes_home / "skills"
    patch = SkillDraft(
        action=DraftAction.PATCH,
        name="my-notes",
        old_string="Write",
        new_string="Put",
        reason="shorter",
    )
    for review in ("auto", "ask"):
        writer = SkillWriter(
            home,
            SkillIndex(skill_roots(home)),
            SkillHistory(home),
            lambda _: (),
            WritingOptions(review),
        )
        asyncio.run(writer.manage(patch))
        patch = SkillDraft(action=DraftAction.DELETE, name="my-notes")
    hermes("snapshot", "export", str(tmp_path / "all.tar.gz"))
    return tmp_path / "all.tar.gz"


def with_json(parser: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    """The actions that take `--json`."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            for word, below_it in each.choices.items():
                yield from with_json(below_it, f"{name} {word}".strip())
        elif "--json" in each.option_strings:
            yield name


def test_snippets_run_in_the_skill_folder():
    parser = argparse.ArgumentParser()
    command.COMMAND.configure(parser)
    assert set(with_json(parser)) == set(ASKED)


def test_all_of_them_print_one_document(hermes, full: Path):
    for action, more in ASKED.items():
        words = [str(full) if word == "FILE" else word for word in more]
        code, out, _ = hermes(*action.split(), *words, "--json")
        assert (action, code) == (action, 0)
        assert json.loads(out), f"{action} has something to show"


def test_a_skill_is_shown_with_its_facts_and_warnings(hermes, hermes_home: Path):
    folder = put(hermes_home / "skills", "my-notes", HEAD)
    (folder / "more.md").write_text("More\n")
    shown = json.loads(hermes("view", "my-notes", "--json")[1])
    assert (shown["file"], shown["text"]) == (str(folder / "SKILL.md"), HEAD)
    assert shown["skill"]["folder"] == str(folder)
    assert shown["skill"]["warnings"] == ["the name 'My Notes' is taken as 'my-notes'"]
    assert json.loads(hermes("view", "my-notes", "more.md", "--json")[1])["text"] == "More\n"
