"""The architecture page names files that exist and every package."""

import re
from pathlib import Path

REPO = Path(__file__).parents[3]
SOURCE = REPO / "src" / "hermes"
PAGE = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_of_the_table_exists() -> None:
    table = PAGE.partition("## Where is …?")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(named) > 50
    paths = [name.replace("NAME.py", "").replace("NAME/", "") for name in named]
    # Paths are relative to src/hermes; those of bundled plugins begin with their package.
    roots = (SOURCE, SOURCE.parent)
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_every_package_is_on_the_page() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if not re.search(rf"\b{name}\b", PAGE)} == set()
