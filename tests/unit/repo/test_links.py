"""Links in the documentation that lead nowhere are found."""

from pathlib import Path

from scripts import links


def found(tmp_path: Path, readme: str) -> list[str]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page, really\n\n## Twice\n\n## Twice\n")
    (tmp_path / "README.md").write_text(readme)
    return list(links.findings(tmp_path))


def test_links_that_lead_somewhere_pass(tmp_path: Path) -> None:
    text = """# Top
    [a](docs/page.md) [b](docs/page.md#a-page-really) [c](#top) [d](https://example.org/x)
    [e](docs/page.md#twice-1) [folder](docs/)
    """
    assert found(tmp_path, text) == []


def test_missing_file_and_missing_heading_are_named_outside_of_code(tmp_path: Path) -> None:
    code = "`[a](gone)`\n\n```\n[b](gone)\n```\n"
    assert found(tmp_path, f"[a](docs/gone.md) [a](docs/page.md#gone)\n{code}") == [
        "README.md: docs/gone.md: no such file",
        "README.md: docs/page.md#gone: no such heading",
    ]
