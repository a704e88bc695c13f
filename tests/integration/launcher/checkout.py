"""A checkout with the real launcher and a stand-in package, so that nothing is downloaded."""

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).parents[3]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-extras.lock")
MAIN = """
import json, os, sys
import hermes
print(json.dumps({"arguments": sys.argv[1:], "folder": os.getcwd(), "source": hermes.__file__,
                  "isolated": bool(sys.flags.isolated), "python": sys.executable}))
sys.exit(7 if sys.argv[1:] == ["fail"] else 0)
"""


@dataclass(frozen=True)
class Checkout:
    """A folder that looks like a clone of the repository, and the environment it is used in."""

    root: Path
    home: Path
    path: str = os.defpath
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def launcher(self) -> Path:
        return self.root / "hermes"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.path, "HOME": str(self.home), **self.variables}

    def run(self, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        command = [str(options.pop("program", self.launcher)), *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, **options
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.launcher), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def set_up(self, lock: str, *more: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.root / "scripts" / "setup.sh"), lock, *more, program="sh")

    def edit_lock(self, name: str = "requirements.lock", text: str = "# changed\n") -> None:
        (self.root / name).write_text(text)


def program(folder: Path, name: str, text: str) -> Path:
    """Writes an executable script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def make_checkout(root: Path) -> None:
    (root / "scripts").mkdir(parents=True)
    shutil.copy(REPO / "hermes", root)
    for script in ("setup.sh", "setup.py"):
        shutil.copy(REPO / "scripts" / script, root / "scripts")
    for lock in LOCKS:
        (root / lock).touch()
    package = root / "src" / "hermes"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(MAIN)
