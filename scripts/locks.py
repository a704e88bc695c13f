"""Checks, without the network, that the lock files match pyproject.toml.

Each dependency has a pin with hashes in its lock, and all locks have the same versions, so that
installing more never changes what is already there.

`locks.py --name-extras` completes a new requirements-extras.lock: it writes under each package the
extras that need it (`# for otel, slack`), and removes the packages that no extra needs.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

COLLECTIONS = ("all", "dev")
"""Extras that only repeat others or the development group: `hermes setup` does not have them."""
EXTRAS_LOCK = "requirements-extras.lock"
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
REQUIREMENT = re.compile(r"^[\w.-]+")
PRERELEASE = re.compile(r"\d(?:a|b|rc|\.dev)\d")
ENTRY = re.compile(r"\n(?=\S)")
FOR = re.compile(r"^ +# for (.+)$", re.MULTILINE)


def normalise(name: str) -> str:
    """Return a package name in the form that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, set[str]]:
    """Return the pinned versions by package; several if they depend on the platform."""
    found: dict[str, set[str]] = {}
    for pin in PIN.finditer(lock):
        found.setdefault(normalise(pin["name"]), set()).add(pin["version"])
    return found


def entries(lock: str) -> Iterator[tuple[str, set[str], str]]:
    """Yield the packages of a lock file: name, extras that need it, whole entry."""
    for entry in ENTRY.split(lock):
        if pin := PIN.match(entry):
            extras = FOR.search(entry)
            yield normalise(pin["name"]), set(extras[1].split(", ") if extras else ()), entry


def wanted(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the requirements of pyproject.toml by the lock file that must contain them."""
    base, extras = project["project"]["dependencies"], extras_of(project)

    def of(*names: str) -> list[str]:
        return [each for name in names for each in extras[name]]

    return {
        "requirements.lock": [*base, *of("server", "email", "metrics")],
        EXTRAS_LOCK: of(*extras),
        "requirements-dev.lock": [
            *base,
            *of("server", "email", "metrics"),
            *of("local", "web", "telegram", "discord", "slack", "matrix"),
            *project["dependency-groups"]["dev"],
        ],
    }


def findings(root: Path) -> Iterator[str]:
    """Yield one line for every difference between a lock and pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    earlier: dict[str, set[str]] = {}
    for file, requirements in wanted(project).items():
        text = (root / file).read_text(encoding="utf-8")
        pinned = pins(text)
        for requirement in requirements:
            versions = pinned.get(package(requirement), set())
            if not versions:
                yield f"{file}: no pin for {requirement!r}; run `make lock`"
            if any(PRERELEASE.search(version) for version in versions):
                yield f"{file}: a pre-release for {requirement!r}; limit it in pyproject.toml"
        for name, versions in pinned.items():
            # A lock may leave out a version that only another platform or Python needs.
            before = earlier.get(name, versions)
            if not (versions <= before or before <= versions):
                yield f"{file}: {name} differs from another lock; run `make lock`"
        for _, _, entry in entries(text):
            if "--hash=sha256:" not in entry:
                yield f"{file}: no hash for {entry.split()[0]}; run `make lock`"
        earlier |= pinned
    yield from extras_findings(root, extras_of(project))
    yield from collection_findings(project)


def extras_of(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the extras that `hermes setup` installs."""
    extras = project["project"]["optional-dependencies"].items()
    return {name: needed for name, needed in extras if name not in COLLECTIONS}


def collection_findings(project: Mapping[str, Any]) -> Iterator[str]:
    """Yield the collections that differ from what they repeat."""
    every = [each for needed in extras_of(project).values() for each in needed]
    repeated = {"all": every, "dev": project["dependency-groups"]["dev"]}
    for name, needed in repeated.items():
        held = project["project"]["optional-dependencies"].get(name)
        if held is not None and set(held) != set(needed):
            wrong = ", ".join(sorted(set(held) ^ set(needed)))
            yield f"pyproject.toml: the extra {name!r} differs from what it repeats: {wrong}"


def extras_findings(root: Path, extras: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the packages of requirements-extras.lock that name the wrong extras."""
    named: dict[str, set[str]] = {}
    for name, users, _ in entries((root / EXTRAS_LOCK).read_text(encoding="utf-8")):
        named.setdefault(name, set()).update(users)
        for unknown in (users - set(extras)) or (() if users else ("no extra",)):
            yield f"{EXTRAS_LOCK}: {name} is for {unknown}; run `make lock`"
    for extra, requirements in extras.items():
        for requirement in requirements:
            if extra not in named.get(package(requirement), {extra}):
                yield f"{EXTRAS_LOCK}: {requirement!r} is not for {extra}; run `make lock`"


def package(requirement: str) -> str:
    name = REQUIREMENT.match(requirement)
    return normalise(name.group()) if name else ""


def name_extras(root: Path) -> None:
    """Add the names of extras to requirements-extras.lock, which uv wrote."""
    lock = root / EXTRAS_LOCK
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    users: dict[str, list[str]] = {}
    for extra, requirements in sorted(extras_of(project).items()):
        for name in resolve(requirements, lock):
            users.setdefault(name, []).append(extra)
    kept = [
        f"{FOR.sub('', entry).rstrip()}\n    # for {', '.join(users[name])}\n"
        for name, _, entry in entries(lock.read_text(encoding="utf-8"))
        if name in users
    ]
    lock.write_text("".join(kept), encoding="utf-8")


def resolve(requirements: list[str], lock: Path) -> set[str]:
    """Return everything that `requirements` install, in the versions of `lock`."""
    options = ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate"]
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", *options, "-c", str(lock), "-"]
    listing = subprocess.run(
        command, input="\n".join(requirements), check=True, capture_output=True, text=True
    )
    return set(pins(listing.stdout))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name-extras", action="store_true")
    parser.add_argument("--options", action="store_true", help="print --extra NAME for each extra")
    root = Path(__file__).resolve().parent.parent
    args = parser.parse_args()
    if args.options:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        print(" ".join(f"--extra {name}" for name in extras_of(project)))
        return 0
    if args.name_extras:
        name_extras(root)
        return 0
    found = list(findings(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
