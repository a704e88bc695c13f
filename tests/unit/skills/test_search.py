from pathlib import Path

import pytest

from hermes.skills.prompt import search_skills
from tests.unit.skills.making import put, skills_in

SKILLS = {
    "research/arxiv": ("Search and read papers", "research, papers, pdf"),
    "documents/pdf-tools": ("Split, merge and fill forms", "documents"),
    "documents/ocr": ("Text from scanned PDF files", "documents"),
    "code/code-review": ("Review a diff before it merges", "git, quality"),
    "code/reviewer-notes": ("Notes", "x"),
    "home/lights": ("Switches lamps", "smart home"),
    "meetings/議事録": ("会議の録音から議事録を作成します", "会議"),
}


@pytest.fixture
def skills(tmp_path: Path):
    for place, (description, tags) in SKILLS.items():
        put(tmp_path, place, description=description, tags=f"[{tags}]")
    return skills_in(tmp_path).skills()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("pdf", ["pdf-tools", "arxiv", "ocr"]),
        ("code review", ["code-review", "reviewer-notes"]),
        ("code-review", ["code-review", "reviewer-notes"]),
        ("read a paper", ["arxiv"]),
        ("lamp", ["lights"]),
        ("turn on the lights at home", ["lights"]),
        ("documents", ["ocr", "pdf-tools"]),
        ("録音", ["議事録"]),
        ("quantum", []),
        ("", []),
        ("!?", []),
    ],
)
def test_words_find_skills_best_first(skills, query: str, found: list[str]):
    assert [skill.name for skill in search_skills(skills, query, 10)] == found


def test_no_more_than_asked_for(skills):
    assert len(search_skills(skills, "pdf", 1)) == 1
