from pathlib import Path

from hermes.skills.skill import SkillRoot, Source, bundled_folder, optional_folder, skill_roots


def test_folders_count_in_the_documented_order(tmp_path: Path):
    own = tmp_path / "skills"
    found = skill_roots(
        own,
        external=[tmp_path / "shared"],
        plugins=[
            SkillRoot(tmp_path / "mail/inbox/SKILL.md", Source.PLUGIN, "mail"),
            SkillRoot(tmp_path / "cal", Source.PLUGIN, "cal"),
        ],
        bundled=tmp_path / "bundled",
    )
    assert [(root.source, root.path, root.plugin) for root in found] == [
        (Source.USER, own, ""),
        (Source.HUB, own / ".hub/skills", ""),
        (Source.EXTERNAL, tmp_path / "shared", ""),
        (Source.PLUGIN, tmp_path / "mail/inbox", "mail"),
        (Source.PLUGIN, tmp_path / "cal", "cal"),
        (Source.BUNDLED, tmp_path / "bundled", ""),
    ]


def test_a_folder_named_twice_counts_once(tmp_path: Path):
    found = skill_roots(tmp_path, external=[tmp_path, tmp_path / "x", tmp_path / "x"])
    assert [root.source for root in found] == [Source.USER, Source.HUB, Source.EXTERNAL]


def test_what_comes_with_hermes_is_found_in_the_checkout():
    checkout = Path(__file__).parents[3]
    for found, name in ((bundled_folder(), "skills"), (optional_folder(), "optional-skills")):
        expected = checkout / name
        assert found == (expected if expected.is_dir() else None)
