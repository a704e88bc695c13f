"""Documented paths next to modules of other packages."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from hermes import compat
from tests.cases import cases

CASES = cases(__file__)


def in_folder(folder: Path, code: str) -> str:
    """What a script in `folder` prints."""
    script = folder / "the_script.py"
    script.write_text(f"import hermes.compat\nhermes.compat.install()\n{code}\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_module_of_the_script_s_folder_wins(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text("mine = True\n")
    (tmp_path / "cron.py").write_text("mine = True\n")
    assert in_folder(tmp_path, "import cli, cron\nprint(cli.mine, cron.mine)") == "True True\n"


def test_foreign_packages_get_no_documented_module(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("mine = True\n")
    code = CASES["foreign"]
    expected = "True\nNo module named 'tools.registry'\nMemoryProvider\n"
    assert in_folder(tmp_path, code) == expected


def test_folder_of_the_same_name_does_not_hide_the_module(tmp_path: Path) -> None:
    """`tools/` with shell scripts, or with a few modules but no `__init__.py`."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "approval.py").write_text("mine = True\n")
    code = "import tools.approval, tools.registry\n"
    code += "print(tools.approval.mine, tools.registry.registry is not None)"
    assert in_folder(tmp_path, code) == "True True\n"


def test_finder_is_installed_last_and_once(tmp_path: Path) -> None:
    before = len(sys.meta_path)
    compat.install()
    assert len(sys.meta_path) == before
    assert type(sys.meta_path[-1]).__name__ == "DocumentedFinder"
    compat.uninstall()
    assert importlib.util.find_spec("hermes_state") is None
    assert "hermes_state" not in sys.modules


def test_other_names_are_not_answered_for() -> None:
    for name in ("agent.nothing", "toolsets.more", "tool", "hermes_cli.main"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            __import__(name)


def test_importing_a_documented_module_loads_nothing_before_a_name_is_used(tmp_path: Path) -> None:
    code = CASES["lazy"]
    assert in_folder(tmp_path, code) == "[]\nTrue\n"


def test_a_name_that_is_not_documented_is_an_ordinary_error() -> None:
    import run_agent

    assert not hasattr(run_agent, "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from run_agent import nothing")


def test_all_names_at_once() -> None:
    scope: dict[str, object] = {}
    exec("from toolsets import *", scope)
    assert {"TOOLSETS", "get_toolset", "resolve_toolset"} <= set(scope)
