from pathlib import Path

import pytest

from hermes.skills.loader import (
    LoadOptions,
    SkillLoader,
    command_message,
    preload_skills,
    skill_command,
    skill_commands,
)
from hermes.skills.skill import Skill, SkillNotFound, SkillRoot, Source, VisibilityContext
from tests.unit.skills.making import LINUX, parsed, put, skills_in

CIRCLE = VisibilityContext(system="linux", disabled=frozenset({"off"}))


@pytest.fixture
def skills(tmp_path: Path) -> tuple[Skill, ...]:
    put(tmp_path, "code-review", description="Review a diff")
    put(tmp_path, "off")
    put(tmp_path, "apple", platforms="[macos]")
    plugin = SkillRoot(tmp_path / "p", Source.PLUGIN, "mail")
    inbox = parsed("---\nname: inbox\ndescription: Mail\n---\nx", ".", plugin)
    return (*skills_in(tmp_path).skills(), inbox)


@pytest.fixture
def loader(tmp_path: Path) -> SkillLoader:
    put(tmp_path, "code-review")
    put(tmp_path, "arxiv")
    options = LoadOptions(home=tmp_path, config_file="config.yaml", context=LINUX)
    return SkillLoader(skills_in(tmp_path), options, variables=lambda _name: None)


def test_every_visible_skill_is_a_command(skills):
    assert skill_commands(skills, CIRCLE) == {"code-review": "Review a diff", "mail:inbox": "Mail"}


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("/code-review", ("code-review", "")),
        ("/Code_Review", ("code-review", "")),
        ("  /CODE-REVIEW   the last\ncommit ", ("code-review", "the last\ncommit")),
        ("/mail:inbox today", ("mail:inbox", "today")),
        ("/off", None),
        ("/apple", None),
        ("/unknown", None),
        ("/", None),
        ("/ code-review", None),
        ("code-review", None),
        ("", None),
    ],
)
def test_a_line_calls_a_skill(skills, typed: str, called: tuple[str, str] | None):
    assert skill_command(typed, skills, CIRCLE) == called


async def test_the_message_holds_the_skill_and_what_the_user_wrote(loader: SkillLoader):
    command = skill_command("/code-review the last commit", loader.skills.skills(), LINUX)
    assert command is not None
    loaded, text = await command_message(loader, command)
    assert text == (
        f"[The user called the skill 'code-review': follow it.]\n\n{loaded.text}\n\nthe last commit"
    )
    _, alone = await command_message(loader, command._replace(rest=""))
    assert alone.endswith("\n\nFollow the skill for what we are working on.")


async def test_skills_of_the_command_line_come_once_and_in_order(loader: SkillLoader):
    loaded, text = await preload_skills(loader, ["code-review", "arxiv", " ", "Code Review"])
    assert [each.skill.name for each in loaded] == ["code-review", "arxiv"]
    assert text.startswith("[The user chose these skills for this session: follow them")
    assert text.index("# Skill: code-review") < text.index("# Skill: arxiv")
    assert await preload_skills(loader, []) == ([], "")


async def test_an_unknown_skill_of_the_command_line_is_a_clear_error(loader: SkillLoader):
    with pytest.raises(SkillNotFound, match="there is no skill 'arxvi'") as raised:
        await preload_skills(loader, ["arxvi"])
    assert raised.value.hint == "did you mean arxiv?"
