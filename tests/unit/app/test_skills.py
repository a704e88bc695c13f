"""Which skills the settings bring into a session, and which they leave out."""

from pathlib import Path

import pytest

from hermes.app.skills import SkillCatalog, skill_roots, visibility_context
from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.skills.index import SkillIndex
from hermes.skills.skill import Source, hidden_reason
from tests.unit.skills.skill_files import put


def loaded(home: Path, config: str) -> Loaded:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(config)
    return load(Home(home))


def external(settings: Loaded, home: Path) -> list[Path]:
    found = skill_roots(settings, Home(home))
    return [root.path for root in found if root.source is Source.EXTERNAL]


def test_folders_of_others_are_absolute_or_lie_in_the_home(
    hermes_home: Path, user_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    named = "skills: {external_dirs: [team/skills, '~/mine', /srv/skills, '~nobody-here/x']}"
    assert external(loaded(hermes_home, named), hermes_home) == [
        hermes_home / "team/skills",
        user_home / "mine",
        Path("/srv/skills"),
        hermes_home / "~nobody-here/x",
    ]


def test_empty_entry_is_skipped_and_reported(hermes_home, tmp_path, monkeypatch):
    put(tmp_path / "work", "stranger")
    monkeypatch.chdir(tmp_path / "work")
    settings = loaded(hermes_home, "skills: {external_dirs: ['', ' ']}")
    notices: list[str] = []
    catalog = SkillCatalog(settings, Home(hermes_home), (), notices.append)
    assert "stranger" not in catalog.skills.listing().positions
    assert notices == ["skills.external_dirs has an empty entry, which is left out"]


def test_damaged_hub_record_is_reported_and_skills_still_load(hermes_home: Path):
    put(hermes_home / "skills", "mine")
    (hermes_home / "skills/.hub").mkdir()
    (hermes_home / "skills/.hub/pending.json").write_bytes(b"\xff")
    notices: list[str] = []
    catalog = SkillCatalog(loaded(hermes_home, ""), Home(hermes_home), (), notices.append)
    assert "mine" in catalog.skills.listing().positions
    assert "the record of an interrupted change is damaged" in notices[0]


@pytest.mark.parametrize("name", ["v-req-ok", "V_Req_Ok", "V Req OK", "tools/v-req-ok"])
def test_a_skill_is_switched_off_by_any_spelling(hermes_home: Path, name: str):
    put(hermes_home / "skills", "tools/v-req-ok")
    skills = SkillIndex(skill_roots(loaded(hermes_home, ""), Home(hermes_home)))
    for config in (f"disabled: ['{name}']", f"platform_disabled: {{cli: ['{name}']}}"):
        context = visibility_context(loaded(hermes_home, f"skills: {{{config}}}"), "cli")
        assert hidden_reason(skills.get("v-req-ok"), context) == "switched off in the settings"
        listing = skills.listing()
        assert listing.positions["v-req-ok"] in listing.hidden(context)


def test_a_skill_of_a_plugin_is_switched_off(hermes_home: Path):
    context = visibility_context(loaded(hermes_home, "skills: {disabled: ['Mail:In_Box']}"), "cli")
    assert context.disabled == {"Mail:in-box"}
