"""What holds for every skill that comes with Hermes, bundled or optional."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.security.injection import scan
from hermes.skills.parse import read_skill
from hermes.skills.scanner import scan_files
from hermes.skills.skill import SkillRoot, Source
from tests.bundled_skills.imports import imported
from tests.bundled_skills.pages import BUNDLED, OPTIONAL, SHELLS, UNTRIED, Page, pages
from tests.bundled_skills.pages import script as script_of
from tests.bundled_skills.steps import HERE, run_steps
from tests.cases import cases

CASES = cases(__file__)

PAGES = pages()
SCRIPTS = [path for page in PAGES for path in page.scripts]

MOST_DESCRIPTION = 90
"""Characters: the description stands in the index of every prompt."""
MOST_LINES = 180
SECTIONS = ["When to Use", "Quick Reference", "Procedure", "Pitfalls", "Verification"]
PLATFORMS = {"linux", "macos", "windows"}
LINKED = ("references", "templates", "scripts", "assets")
PACKAGES = CASES["packages"]
"""By module: the package on PyPI that a script may need; it must say how to install it."""
OLDEST_PYTHON = (3, 9)
"""The python3 of a plain macOS; a script may run on a machine other than that of Hermes."""

IN_SKILL = re.compile(r"\$\{HERMES_SKILL_DIR\}/([\w./-]*\w)")
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
MACHINE = re.compile(r"(?<![\w.~*-])/(?:root|work)/[\w.]|/home/(?!(?:alice|bob|user|me)\b)\w")

every_skill = pytest.mark.parametrize("page", PAGES, ids=str)
every_script = pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda path: f"{path.parents[1].name}/{path.name}"
)


def test_there_are_enough_skills_for_daily_use() -> None:
    bundled = pages(BUNDLED)
    assert len(bundled) >= 25
    assert len({page.category for page in bundled}) >= 8
    assert len(pages(OPTIONAL)) >= 6


DAILY_USES = CASES["daily uses"]


def test_each_daily_use_has_its_skill() -> None:
    assert set(DAILY_USES.values()) <= {page.folder.name for page in pages(BUNDLED)}


def test_no_two_skills_have_one_name() -> None:
    names = [page.folder.name for page in PAGES]
    assert sorted(names) == sorted(set(names))


@every_skill
def test_the_head_says_what_the_skill_is(page: Page) -> None:
    head = page.head
    assert head["name"] == page.folder.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert 20 <= len(head["description"]) <= MOST_DESCRIPTION, len(head["description"])
    assert "\n" not in head["description"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", str(head["version"]))
    assert (head["author"], head["license"]) == ("Hermes", "MIT")
    assert set(head.get("platforms", [])) <= PLATFORMS
    assert page.extension["tags"]


@every_skill
def test_hermes_loads_it_without_a_warning(page: Page) -> None:
    skill = read_skill(page.file, SkillRoot(page.root, Source.BUNDLED))
    assert skill.warnings == ()
    assert (skill.name, skill.category) == (page.folder.name, page.category)


@every_skill
def test_related_skills_exist(page: Page) -> None:
    known = {other.folder.name for other in PAGES} - {page.folder.name}
    assert set(page.extension.get("related_skills", [])) <= known


@every_skill
def test_the_page_has_its_sections_and_is_short(page: Page) -> None:
    present = [section for section in page.sections if section in SECTIONS]
    assert present == SECTIONS
    assert len(page.text.splitlines()) <= MOST_LINES


@every_skill
def test_files_that_are_named_exist_and_files_that_exist_are_named(page: Page) -> None:
    named = {*IN_SKILL.findall(page.body), *LINK.findall(page.body)}
    for name in named:
        assert (page.folder / name).is_file(), name
        assert (page.folder / name).resolve().is_relative_to(page.folder)
    for file in page.files:
        name = file.relative_to(page.folder).as_posix()
        assert name.startswith(LINKED), name
        assert name in page.body, f"{name} is not mentioned in SKILL.md"


@every_skill
def test_nothing_in_it_belongs_to_one_machine(page: Page) -> None:
    for file in (page.file, *page.files):
        assert not MACHINE.findall(file.read_text(encoding="utf-8")), file


@every_skill
def test_nothing_in_it_looks_like_an_injection(page: Page) -> None:
    for file in (page.file, *page.files):
        assert scan(file.read_text(encoding="utf-8")) == (), file


@every_skill
def test_the_scanner_that_judges_foreign_skills_finds_it_safe(page: Page) -> None:
    files = {file.relative_to(page.folder).as_posix(): file.read_bytes() for file in page.files}
    report = scan_files({"SKILL.md": page.file.read_bytes(), **files})
    assert report.verdict == "safe", report.findings


@every_skill
def test_a_shell_block_that_is_not_run_is_valid_shell(page: Page) -> None:
    for block in page.blocks:
        assert block.language, f"line {block.line}: the block names no language"
        if block.language in SHELLS and not block.tried:
            done = subprocess.run(
                ["bash", "-n"], input=block.text, capture_output=True, encoding="utf-8"
            )
            assert done.returncode == 0, f"line {block.line}: {done.stderr}"


@pytest.mark.parametrize("name", UNTRIED)
def test_every_untried_block_exists(name: str) -> None:
    (page,) = (each for each in PAGES if each.folder.name == name)
    texts = [block.text for block in page.blocks if block.language in SHELLS]
    for start in UNTRIED[name]:
        assert any(text.startswith(start) for text in texts), start


@every_skill
def test_the_model_reads_no_comments(page: Page) -> None:
    assert "<!--" not in page.text


@every_skill
def test_python_blocks_are_valid_python(page: Page) -> None:
    for block in page.blocks:
        if block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if page.tried], ids=str)
def test_the_steps_work_when_they_are_run(page: Page, tmp_path: Path) -> None:
    run_steps(page, tmp_path)


@pytest.mark.parametrize("page", pages(BUNDLED), ids=str)
def test_a_bundled_skill_has_steps_or_scripts_that_tests_run(page: Page) -> None:
    assert page.tried or page.scripts


def test_every_fixture_belongs_to_a_skill_with_tried_steps() -> None:
    tried = {page.folder.name for page in PAGES if page.tried}
    files = [*HERE.glob("before/*"), *HERE.glob("after/*")]
    assert {file.stem for file in files} <= tried


@every_script
def test_a_script_needs_the_standard_library_or_names_its_package(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text, feature_version=OLDEST_PYTHON))
    others = {name.partition(".")[0] for name in imported(script)} - sys.stdlib_module_names
    for module in others:
        assert f"pip install {PACKAGES[module]}" in text


@pytest.mark.parametrize(("command", "package"), CASES["without the package"])
def test_a_missing_package_is_an_error_of_one_line(command, package, tmp_path):
    for module in PACKAGES:
        (tmp_path / f"{module}.py").write_text("raise ImportError")
    path, *arguments = command
    done = _call(script_of(path), tmp_path, *arguments, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"pip install {package}" in done.stderr


@every_script
def test_a_script_says_how_it_is_used(script: Path, tmp_path: Path) -> None:
    done = _call(script, tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
    assert len(done.stdout.splitlines()) > 3


@every_script
def test_a_wrong_option_is_an_error_of_one_line(script: Path, tmp_path: Path) -> None:
    done = _call(script, tmp_path, "--no-such-option-at-all")
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_category_has_a_description_of_one_line() -> None:
    for root, category in sorted({(page.root, page.category) for page in PAGES}):
        text = (root / category / "DESCRIPTION.md").read_text(encoding="utf-8").strip()
        assert text, category
        body = text.rpartition("---\n")[2].strip()
        assert len(text.splitlines()) <= 4, category
        assert len(body or text) <= 2 * MOST_DESCRIPTION, category


def _call(
    script: Path, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
    )
