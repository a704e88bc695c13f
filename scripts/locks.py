"""Checks, without the network, that the lock files are in step with pyproject.toml.

Each dependency has a pin with hashes in its lock, and each lock contains the narrower one with
the same versions, so that installing a wider set never changes what is already there.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
REQUIREMENT = re.compile(r"^[\w.-]+")


def normalise(name: str) -> str:
    """A package name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, set[str]]:
    """Package -> pinned versions (several when they depend on the platform)."""
    found: dict[str, set[str]] = {}
    for pin in PIN.finditer(lock):
        found.setdefault(normalise(pin["name"]), set()).add(pin["version"])
    return found


def wanted(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """Lock file -> requirements of pyproject.toml it must hold, narrow to wide."""
    base = project["project"]["dependencies"]
    extras = project["project"]["optional-dependencies"]

    def of(*names: str) -> list[str]:
        return [each for name in names for each in extras[name]]

    return {
        "requirements.lock": [*base, *of("web", "server", "email", "metrics")],
        "requirements-local.lock": of("local"),
        "requirements-platforms.lock": of("telegram", "discord", "slack", "matrix"),
        "requirements-dev.lock": project["dependency-groups"]["dev"],
    }


def findings(root: Path) -> Iterator[str]:
    """One line for every way in which a lock is out of step."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    narrower: dict[str, set[str]] = {}
    for file, requirements in wanted(project).items():
        text = (root / file).read_text(encoding="utf-8")
        pinned = pins(text)
        for requirement in requirements:
            name = REQUIREMENT.match(requirement)
            if name is None or normalise(name.group()) not in pinned:
                yield f"{file}: no pin for {requirement!r}; run `make lock`"
        for name_, versions in narrower.items():
            if pinned.get(name_) != versions:
                yield f"{file}: {name_} differs from the narrower lock; run `make lock`"
        for entry in re.split(r"\n(?=\S)", text):
            if PIN.match(entry) and "--hash=sha256:" not in entry:
                yield f"{file}: no hash for {entry.split()[0]}; run `make lock`"
        narrower = pinned


def main() -> int:
    found = list(findings(Path(__file__).resolve().parent.parent))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
