"""No text tells people to install Hermes by name from a package index, where another project has
the name; every hint names an extra that our own lock files have."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from hermes.cli.commands.setup import NAMES
from hermes.gateway.platforms.registry import extra_of, shipped_manifests
from hermes.util.extras import BASE, extras, install_hint
from scripts import locks, setup
from scripts.portable import committed

ROOT = Path(__file__).parents[3]
EXEMPT = ("tests/",)
"""Corpora of commands that the danger rules and the scanner judge, and this file."""

COMMAND = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|pdm|rye|conda|mamba|brew)\b[^\n`|;&]*?"
    r"\b(?:install|add|upgrade|run|download|inject)\b(?P<words>[^\n`|;&]*)"
    r"|\b(?:uvx|easy_install)\b(?P<uvx>[^\n`|;&]*)"
)
OUR_NAME = re.compile(
    r"(?<![\w./@:=+-])['\"]*hermes(?:[-_]agent)?(?:\[[^\]]*\])?(?:[=<>~!]=?[\w.*]*)?(?![\w/.-]|\s*@)",
    re.IGNORECASE,
)
OUR_EXTRA = re.compile(r"\bhermes(?:[-_]agent)?\[[\w,{}]+\]")
SETUP = re.compile(r"(?<![\w-])hermes setup ([a-z]\w*(?:-\w+)*)")


def by_name(text: str) -> Iterator[str]:
    """Instructions in `text` that install Hermes, or an extra of it, by name."""
    text = re.sub(r"\\\n\s*", " ", text)
    for found in COMMAND.finditer(text):
        if OUR_NAME.search(found["words"] or found["uvx"] or ""):
            yield found.group()
    yield from OUR_EXTRA.findall(text)


def texts() -> Iterator[tuple[str, str]]:
    for path in committed(ROOT):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(EXEMPT) and not name.endswith(".lock"):
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # pictures


def test_no_text_installs_hermes_by_name() -> None:
    assert [f"{name}: {each}" for name, text in texts() for each in by_name(text)] == []


BY_NAME = (
    "pip install hermes", "python -m pip install --upgrade 'hermes[otel]'",
    "$ pip3 install -U hermes-agent==1.0", "pipx install hermes", "pipx upgrade hermes",
    "pipx run hermes", "uv pip install \"hermes[web]>=1\"", "uv tool install hermes_agent",
    "uv add hermes", "uvx hermes chat", "poetry add hermes", "pip install \\\n    hermes",
    "install the extra hermes[local]", "f\"pip install 'hermes[{extra}]'\"",
)  # fmt: skip
OTHERS = (
    "pip install -e .", "pip install -r requirements.lock", "hermes setup otel",
    "pip install git+https://example.org/hermes.git", "pip uninstall hermes",
    "pip install 'hermes @ git+https://example.org/x'", "uvx mcp-server-time",
    "hermes mcp add time --command uvx --args mcp-server-time",
    "What pip, pipx or uv installed, they update; `hermes update` prints the command.",
)  # fmt: skip


def test_installations_by_name_are_found_and_other_commands_are_not() -> None:
    assert [text for text in (*BY_NAME, *OTHERS) if list(by_name(text))] == list(BY_NAME)


def test_every_text_names_something_that_can_be_set_up() -> None:
    known = {*NAMES, *extras()}
    wrong = {
        f"{name}: hermes setup {word}"
        for name, text in texts()
        for word in SETUP.findall(text)
        if word not in known
    }
    assert wrong == set()


def test_every_hint_in_the_source_names_an_extra() -> None:
    """Names that are not written there come from the tables that the other tests look at."""
    computed = {"one.extra", "backend.package", "name", "self.name"}  # self.name: cloud backends
    seen = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "install_hint":
                (argument,) = node.args
                if isinstance(argument, ast.Constant):
                    seen.add(argument.value)
                else:
                    assert ast.unparse(argument) in computed, path
    assert {"otel", "postgres", "web", "local"} <= seen
    assert {"modal", "daytona"} <= set(extras())
    assert seen <= set(extras())


def test_a_hint_for_what_does_not_exist_is_an_error() -> None:
    assert install_hint("otel") == "hermes setup otel"
    with pytest.raises(KeyError):
        install_hint("pdf")


def test_every_extra_is_described_and_documented_and_no_section_has_its_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*project["optional-dependencies"], BASE} - {"all", "dev"} == set(extras())
    assert not set(extras()) & set(NAMES)
    page = (ROOT / "docs" / "how-to" / "set-up.md").read_text()
    for name, extra in extras().items():
        assert f"| `{name}` | {extra.summary} |" in page


@pytest.mark.parametrize("name", extras())
def test_every_package_of_an_extra_is_pinned_with_a_hash(name: str) -> None:
    pins = setup.pins_of(ROOT, name)
    assert pins
    for pin in pins:
        assert "--hash=sha256:" in pin.text
        assert "://" not in pin.text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"].get(name, project["dependencies"])
    assert {locks.package(each) for each in wanted} <= {setup.normalise(pin.name) for pin in pins}


def test_the_extra_of_a_platform_has_the_modules_it_needs() -> None:
    owners = packages_distributions()
    for platform in shipped_manifests().values():
        extra = extra_of(platform)
        if not platform.needs:
            continue
        assert extra in extras(), platform.name
        there = {setup.normalise(pin.name) for pin in setup.pins_of(ROOT, extra)}
        for module in platform.needs:
            assert there & {setup.normalise(each) for each in owners[module]}, (extra, module)


def test_every_command_can_be_imported_without_the_optional_packages() -> None:
    always = {setup.normalise(pin.name) for pin in setup.pins_of(ROOT, BASE)}
    extras = setup.read_pins((ROOT / setup.EXTRAS_LOCK).read_text())
    optional = {setup.normalise(pin.name) for pin in extras} - always
    owners = packages_distributions().items()
    absent = [module for module, names in owners if set(map(setup.normalise, names)) <= optional]
    assert {"xllamacpp", "psycopg", "telegram"} <= set(absent)
    code = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({absent!r}))
import hermes.cli.commands, hermes.gateway.runner
for each in pkgutil.walk_packages(hermes.cli.commands.__path__, "hermes.cli.commands."):
    importlib.import_module(each.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
