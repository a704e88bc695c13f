"""`hermes uninstall` and `hermes update` as they are asked for."""

from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.config.installation import Checkout, Package
from hermes.ops.profiles import make_alias
from tests.unit.cli.conftest import Run

PACKAGE = Package(
    "pip", "python -m pip install --upgrade git+https://x", "python -m pip uninstall hermes"
)


@pytest.fixture
def alias(hermes_home: Path) -> Path:
    """Of a profile."""
    (hermes_home / "profiles" / "work").mkdir(parents=True)
    return make_alias(Home.of_profile("work")).path


def test_uninstall_asks_first_and_reports_what_stays(hermes: Run, alias: Path) -> None:
    outcome = hermes("uninstall", typed="n\n", found=PACKAGE).expect(1)
    assert "~/.local/bin/work" in outcome.out.partition("What stays:")[0]
    assert "~/.hermes" in outcome.out.partition("What stays:")[2]
    assert alias.exists()
    assert "needs --yes" in hermes("uninstall", found=PACKAGE).err


def test_pip_is_named_for_what_pip_installed(hermes: Run, alias: Path) -> None:
    outcome = hermes("uninstall", "--yes", found=PACKAGE).expect()
    assert not alias.exists()
    assert outcome.out.endswith("  python -m pip uninstall hermes\n")
    message = hermes("update", found=PACKAGE)
    assert (message.code, message.out.endswith(f"  {PACKAGE.update}\n")) == (0, True)
    assert (
        hermes("update", "--check", "--json", found=PACKAGE).document["command"] == PACKAGE.update
    )
    assert hermes("update", "--rollback", found=PACKAGE).code == 1
    assert hermes("update", "--json", found=PACKAGE).code == 2


def test_all_data_needs_a_word(hermes: Run, alias: Path, hermes_home: Path) -> None:
    assert hermes("uninstall", "--full", typed="y\n", found=PACKAGE).code == 1
    assert hermes_home.exists()
    assert hermes("uninstall", "--full", typed="delete\n", found=PACKAGE).code == 0
    assert not hermes_home.exists()


def test_a_folder_without_git_says_where_a_new_version_is(hermes: Run, tmp_path: Path) -> None:
    hermes("update", found=Checkout(tmp_path)).expect(1, err="is not a git repository")
