"""Whether the program itself is whole: Python and the packages it needs."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from hermes import __version__
from hermes.app.doctor.findings import Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config.settings import Settings
from hermes.util.extras import BASE, install_hint
from hermes.util.text import many

DISTRIBUTION = "hermes"
CHECKOUT = Path(__file__).parents[4]
OLDEST_PYTHON = (3, 11)

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<wanted>[^;]*)(?P<marker>;.*)?"
)
_LEAST = re.compile(r">=\s*([\d.]+)")


class Requirement(NamedTuple):
    name: str
    least: str
    """The oldest version that will do; empty when any will."""
    extra: str = BASE
    """What `hermes setup` calls it."""


def python(_: Scene) -> Found:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return [
            problem(f"Python {version} is too old, {oldest} is needed", "install a newer Python")
        ]
    return [fine(f"Hermes {__version__} on Python {version}")]


def packages(scene: Scene) -> Found:
    wanted = requirements()
    if wanted is None:
        return [warning("nothing says which packages are needed", "install Hermes again")]
    found: Found = []
    for one in [*wanted, *(_extras(scene.settings) if scene.has_settings else ())]:
        version = _installed(one.name)
        if version is None:
            found.append(problem(f"the package {one.name} is missing", install_hint(one.extra)))
        elif one.least and _numbers(version) < _numbers(one.least):
            text = f"{one.name} {version} is too old, {one.least} is needed"
            found.append(problem(text, install_hint(one.extra)))
    return found or [fine(f"all of {many(len(wanted), 'package')} are there and new enough")]


def requirements() -> list[Requirement] | None:
    """What the installed package, or the checkout it runs from, says it needs."""
    try:
        lines = metadata.requires(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        lines = _of_checkout(CHECKOUT / "pyproject.toml")
    if lines is None:
        return None
    return [one for line in lines if (one := parse_requirement(line)) is not None]


def _of_checkout(file: Path) -> list[str] | None:
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return None
    return [str(line) for line in project.get("dependencies", [])]


def parse_requirement(line: str) -> Requirement | None:
    """None for what is needed only elsewhere: by an extra, or on another system."""
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        return None
    marker = (match["marker"] or "").replace('"', "'")
    if "extra ==" in marker or ("!= 'win32'" in marker and sys.platform == "win32"):
        return None
    least = _LEAST.search(match["wanted"])
    return Requirement(match["name"], least[1] if least else "")


def _extras(settings: Settings) -> list[Requirement]:
    """Packages that a feature needs which is switched on."""
    on = {
        ("psycopg", "postgres"): bool(settings.store.url),
        ("modal", "modal"): settings.terminal.backend == "modal",
        ("daytona", "daytona"): settings.terminal.backend == "daytona",
        ("opentelemetry-sdk", "otel"): settings.telemetry.enabled,
    }
    return [Requirement(name, "", extra) for (name, extra), needed in on.items() if needed]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """`3.0.47` as numbers; what follows them (`rc1`, `+local`) does not count."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
