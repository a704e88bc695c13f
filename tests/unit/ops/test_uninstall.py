"""How the program was installed, and taking it away."""

import json
from pathlib import Path

import pytest

from hermes.cli.commands.completion import MARK
from hermes.config.home import Home
from hermes.config.installation import Checkout, Package, installation
from hermes.core.errors import HermesError
from hermes.ops.profiles import make_alias
from hermes.ops.update import COMPLETION_MARK, remove_all
from hermes.ops.update import removable_parts as parts

RC = '# mine\nalias x=y\neval "$(hermes completion bash)"\nexport A=1\n'


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "checkout"
    for name in ("src/hermes", "scripts", ".venv/bin", ".cache/update"):
        (root / name).mkdir(parents=True)
    for name in ("hermes", "scripts/setup.py", ".venv/bin/python", "README.md"):
        (root / name).touch()
    return Checkout(root)


def test_checkout_is_recognised_by_its_launcher_and_environment(checkout: Checkout) -> None:
    source = checkout.root / "src" / "hermes"
    assert installation(source, str(checkout.environment)) == checkout
    assert not checkout.is_repository
    elsewhere = installation(source, "/usr")
    assert isinstance(elsewhere, Package)
    assert elsewhere.update.startswith(f"git -C {checkout.root} pull --ff-only && ")


INSTALLERS = [
    ("/home/me/.local/share/pipx/venvs/hermes", "pipx install --force", "pipx uninstall hermes"),
    ("/home/me/.local/share/uv/tools/hermes", "uv tool install --force", "uv tool uninstall"),
    ("/usr", "-m pip install --upgrade", "-m pip uninstall hermes"),
]


@pytest.mark.parametrize(("prefix", "update", "remove"), INSTALLERS)
@pytest.mark.parametrize(
    ("record", "address"),
    [
        ({"url": "https://x.example/h", "vcs_info": {"vcs": "git"}}, "git+https://x.example/h"),
        ({"url": "file:///srv/hermes.whl"}, "file:///srv/hermes.whl"),
    ],
)
def test_a_package_is_updated_by_its_installer_from_where_it_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefix: str,
    update: str,
    remove: str,
    record: dict[str, object],
    address: str,
) -> None:
    about = tmp_path / "hermes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes\nVersion: 1.0\n")
    (about / "direct_url.json").write_text(json.dumps(record))
    monkeypatch.syspath_prepend(tmp_path)
    found = installation(tmp_path / "hermes", prefix)
    assert isinstance(found, Package)
    assert found.update.endswith(f"{update} {address}")
    assert remove in found.remove


@pytest.mark.parametrize(("prefix", "_", "remove"), INSTALLERS)
def test_a_package_from_nowhere_is_never_updated_by_its_name(
    tmp_path: Path, prefix: str, _: str, remove: str
) -> None:
    """On the public index, another project has the name."""
    found = installation(tmp_path / "lib" / "site-packages" / "hermes", prefix)
    assert isinstance(found, Package)
    assert found.update == ""
    assert remove in found.remove


def test_only_our_files_are_removed(checkout: Checkout, user_home: Path, hermes_home: Path) -> None:
    (hermes_home / "profiles" / "work").mkdir(parents=True)
    (hermes_home / "config.yaml").write_text("a: 1")
    make_alias(Home.of_profile("work"))
    folder = user_home / ".local" / "bin"
    (folder / "other").write_text("#!/bin/sh\n")
    (folder / "hermes").symlink_to(checkout.launcher)
    (user_home / ".bashrc").write_text(RC)
    (user_home / ".zshrc").write_text("# hermes completion zsh is nice\n")
    completion = user_home / ".config" / "fish" / "completions" / "hermes.fish"
    completion.parent.mkdir(parents=True)
    completion.write_text(f"# fish {COMPLETION_MARK} fish`\n")
    gone = parts(checkout, full=False)
    assert {part.path for part in gone} == {
        folder / "work", folder / "hermes", user_home / ".bashrc", completion,
        checkout.cache, checkout.environment,
    }  # fmt: skip
    assert gone[-1].path == checkout.environment
    assert all(not outcome.problem for outcome in remove_all(gone))
    assert names(folder) == ["other"]
    assert (user_home / ".bashrc").read_text() == "# mine\nalias x=y\nexport A=1\n"
    assert (user_home / ".zshrc").exists()
    assert names(checkout.root) == ["README.md", "hermes", "scripts", "src"]
    assert (hermes_home / "config.yaml").exists()
    assert parts(checkout, full=False) == []


def test_full_deletes_the_home(checkout: Checkout, hermes_home: Path) -> None:
    (hermes_home / "profiles" / "work").mkdir(parents=True)
    (hermes_home / "anything").write_text("of a plugin")
    locked = hermes_home / "sandboxes" / "locked"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0o500)
    assert all(not outcome.problem for outcome in remove_all(parts(checkout, full=True)))
    assert not hermes_home.exists()


def test_home_of_another_name_loses_only_our_entries(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    (shared / "skills").mkdir(parents=True)
    (shared / "config.yaml").touch()
    (shared / "holiday.jpg").touch()
    monkeypatch.setenv("HERMES_HOME", str(shared))
    list(remove_all(parts(checkout, full=True)))
    assert names(shared) == ["holiday.jpg"]


@pytest.mark.parametrize("where", ["user", "above", "program", "strange"])
def test_foreign_folder_is_not_removed(
    checkout: Checkout,
    user_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.tex").touch()
    folder = {
        "user": user_home,
        "above": user_home.parent,
        "program": checkout.root,
        "strange": strange,
    }[where]
    (folder / "config.yaml").touch() if where != "strange" else None
    monkeypatch.setenv("HERMES_HOME", str(folder))
    with pytest.raises(HermesError, match="does not look like a home"):
        parts(checkout, full=True)
    (user_home.parent / "config.yaml").unlink(missing_ok=True)


def test_a_part_that_cannot_be_removed_is_named_and_the_rest_goes(
    checkout: Checkout, hermes_home: Path
) -> None:
    (hermes_home / "profiles" / "work").mkdir(parents=True)
    alias = make_alias(Home.of_profile("work"))
    gone = parts(checkout, full=False)
    alias.path.unlink()  # another process was quicker
    first, *others = remove_all(gone)
    assert (first.part.path, first.problem) == (alias.path, "No such file or directory")
    assert not any(outcome.problem for outcome in others)
    assert not checkout.environment.exists()


def test_completion_scripts_carry_the_mark_by_which_they_are_found() -> None:
    assert COMPLETION_MARK in MARK
