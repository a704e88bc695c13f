"""Extensions in the folder `plugins` of a checkout."""

import subprocess
import sys
from pathlib import Path

import hermes
from tests.cases import cases

CASES = cases(__file__)

PROVIDER = CASES["provider"]
ENGINE = CASES["engine"]
PROGRAM = CASES["program"]


def test_providers_and_engines_of_a_checkout_are_found(tmp_path: Path) -> None:
    source = Path(hermes.__file__).parents[1]
    (tmp_path / "src").mkdir()
    for package in ("hermes", "hermes_plugins"):
        (tmp_path / "src" / package).symlink_to(source / package)
    (tmp_path / "pyproject.toml").write_text("")
    for kind, code in (("memory", PROVIDER), ("context_engine", ENGINE)):
        folder = tmp_path / "plugins" / kind / "local"
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text("name: local\n")
        (folder / "__init__.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "home")],
        env={"PYTHONPATH": str(tmp_path / "src"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["Local mem0", "7", "memory/local", "context_engine/local"]
