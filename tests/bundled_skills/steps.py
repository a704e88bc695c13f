"""Runs the tried blocks of a skill in a folder of their own, in the order of the page.

What a skill needs around it is made by `before/<skill>.sh`, what it must have brought about is
checked by `after/<skill>.sh`; both are optional. All three run in one bash that stops at the first
failure. Each block starts in the folder `$WORK` (set it in `before`, else the temporary folder) and
leaves no variables behind, as each command of an agent should not either. A line `# needs: jq ssh`
in `before` names programs without which the test is skipped; `docker-engine` asks for an engine,
`skill-packages` for a `python3` with the packages that skills name.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundled_skills.pages import Block, Page
from tests.installed import skill_tools
from tests.integration.terminal.docker_engine import docker_engine

HERE = Path(__file__).resolve().parent
NEEDS = re.compile(r"^# needs: (.+)$", re.MULTILINE)
ENGINE = "docker-engine"
PACKAGES = "skill-packages"
SECONDS = 100
PYTHON = str(Path(sys.executable).parent)
"""First in the search path: `python3` is then this one, not a script that looks for one."""
INSTALLED = "/usr/bin"
"""Before the rest: a machine may have stand-ins for programs of Debian's packages."""
SERVERS = "/usr/sbin:/sbin"
"""Where servers such as nginx and sshd lie on Debian."""


def run_steps(page: Page, folder: Path) -> str:
    """What the blocks printed; a failure fails the test with the output so far."""
    before, after = (_part(kind, page) for kind in ("before", "after"))
    environment = _environment(page, folder, before)
    program = "\n".join(_program(page, before, after))
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, f"{page}: exit code {done.returncode}\n{output}"
    return output


def _part(kind: str, page: Page) -> str:
    file = HERE / kind / f"{page.folder.name}.sh"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _program(page: Page, before: str, after: str) -> Iterator[str]:
    yield "set -euo pipefail"
    yield 'WORK="$PWD"'
    yield before
    for block in page.tried:
        yield _step(block)
    if after:
        yield f'echo "--- after/{page.folder.name}.sh"'
        yield f'cd "$WORK"\n{after}'


def _step(block: Block) -> str:
    return f'echo "--- SKILL.md line {block.line}"\n(cd "$WORK"\n{block.text}\n)'


def _environment(page: Page, folder: Path, before: str) -> dict[str, str]:
    search = f"{PYTHON}:{INSTALLED}:{os.environ['PATH']}:{SERVERS}"
    needs = [name for line in NEEDS.findall(before) for name in line.split()]
    programs = [name for name in needs if name not in (ENGINE, PACKAGES)]
    missing = [name for name in programs if not shutil.which(name, path=search)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if PACKAGES in needs:
        search = f"{skill_tools()}:{search}"
    extra = docker_engine().environment if ENGINE in needs else {}
    return {
        **os.environ,
        **extra,
        "PATH": search,
        "HOME": os.environ["HOME"],
        "HERMES_SKILL_DIR": str(page.folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_NAME": "Alice",
        "GIT_AUTHOR_EMAIL": "alice@example.org",
        "GIT_COMMITTER_NAME": "Alice",
        "GIT_COMMITTER_EMAIL": "alice@example.org",
        "TMPDIR": str(folder),
    }
