"""Installing from folders and git, updating, removing. The code of a plugin is never run."""

import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.plugins.installer import (
    PluginFetcher,
    PluginFetchError,
    PluginInstaller,
    PluginSource,
    parse_source,
)
from tests.cases import cases
from tests.unit.plugins.stage import write_plugin

CASES = cases(__file__)

BOOBY_TRAP = "raise SystemExit('this code was run')\n"
GIT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": f"{what}@example.org" for who in ("AUTHOR", "COMMITTER")
       for what in ("NAME", "EMAIL")},
}  # fmt: skip


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=GIT, check=True, capture_output=True)


def commit(folder: Path, message: str = "change") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = write_plugin(tmp_path / "upstream", "weather", BOOBY_TRAP)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    return folder


@pytest.fixture
def workshop(hermes_home: Path) -> PluginInstaller:
    return PluginInstaller(hermes_home / "plugins", PluginFetcher(GIT))


@pytest.mark.parametrize(("said", "address"), CASES["addresses"])
def test_addresses_are_understood(said: str, address: str) -> None:
    assert parse_source(said) == PluginSource(address)


@pytest.mark.parametrize("said", CASES["invalid"])
def test_invalid_address_is_refused(said: str) -> None:
    with pytest.raises(UsageError):
        parse_source(said)


def test_a_folder_is_copied_without_its_history(workshop, repository, hermes_home):
    manifest = workshop.install(parse_source(str(repository)))
    place = hermes_home / "plugins" / "weather"
    assert manifest.name == "weather"
    assert sorted(p.name for p in place.iterdir()) == ["__init__.py", "plugin.yaml"]
    assert workshop.installed() == ["weather"]
    (repository / "plugin.yaml").write_text("name: weather\nversion: 1.1.0\n")
    (place / "state.db").write_text("kept by the plugin itself")
    change = workshop.update("weather")
    assert (change.before, change.after) == ("1.0.0", "1.1.0")
    assert (place / "state.db").exists()


def test_a_repository_is_cloned_and_updated(workshop, repository, hermes_home):
    workshop.install(parse_source(f"file://{repository}"))
    place = hermes_home / "plugins" / "weather"
    assert workshop.update("weather").manifest.version == "1.0.0"
    (repository / "plugin.yaml").write_text("name: weather\nversion: 2.0.0\n")
    (repository / "more.py").write_text("")
    commit(repository)
    (place / "state.db").write_text("kept by the plugin itself")
    change = workshop.update("weather")
    assert change.manifest.version == "2.0.0"
    assert change.before != change.after
    assert {"more.py", "state.db"} <= {p.name for p in place.iterdir()}


def test_hooks_of_git_are_not_run(workshop, repository, hermes_home, tmp_path):
    workshop.install(parse_source(f"file://{repository}"))
    hook = hermes_home / "plugins" / "weather" / ".git" / "hooks" / "post-merge"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    (repository / "more.py").write_text("")
    commit(repository)
    workshop.update("weather")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def address(repository: Path) -> Iterator[str]:
    """The repository over HTTP."""
    git(repository, "update-server-info")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(repository), **kwargs)  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/.git"
    server.shutdown()
    server.server_close()
    thread.join()


def test_address_without_a_repository_is_reported_in_one_line(workshop, address):
    with pytest.raises(HermesError) as caught:
        workshop.install(PluginSource(address.replace("/.git", "/nothing.git")))
    assert str(caught.value).startswith("git failed: ")
    assert "\n" not in str(caught.value)
    assert workshop.installed() == []


def test_a_plugin_of_the_same_name_is_replaced_only_by_force(workshop, repository, hermes_home):
    workshop.install(PluginSource(str(repository), folder=True))
    with pytest.raises(UsageError, match="there is a plugin weather already"):
        workshop.install(PluginSource(str(repository), folder=True))
    (hermes_home / "plugins" / "weather" / "old.py").write_text("")
    workshop.install(PluginSource(str(repository), folder=True), force=True)
    assert not (hermes_home / "plugins" / "weather" / "old.py").exists()


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("name: ../escape\n", "'../escape' is not a valid name"),
        ("name: memory\n", "cannot be called memory"),
        ("- list\n", "expected keys and values"),
    ],
)
def test_invalid_plugin_leaves_nothing_behind(workshop, tmp_path, hermes_home, manifest, said):
    folder = write_plugin(tmp_path, "odd", manifest=manifest)
    with pytest.raises(UsageError) as caught:
        workshop.install(PluginSource(str(folder), folder=True))
    assert said in str(caught.value)
    assert ".install-" not in str(caught.value)
    assert list((hermes_home / "plugins").iterdir()) == []


def test_folder_without_code_is_refused(workshop: PluginInstaller, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "bare")
    (folder / "__init__.py").unlink()
    with pytest.raises(UsageError, match=r"__init__\.py is missing"):
        workshop.install(PluginSource(str(folder), folder=True))


def test_a_removed_plugin_is_gone_and_a_link_only_unlinked(workshop, repository, hermes_home):
    workshop.install(PluginSource(str(repository), folder=True))
    workshop.remove("weather")
    (hermes_home / "plugins" / "weather").symlink_to(repository)
    workshop.remove("weather")
    assert workshop.installed() == []
    assert (repository / "plugin.yaml").exists()
    with pytest.raises(UsageError, match="not among those you installed"):
        workshop.remove("../plugins")


def test_an_update_replaces_links_and_does_not_write_through_them(workshop, tmp_path, hermes_home):
    source = write_plugin(tmp_path, "weather", BOOBY_TRAP)
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    (source / "first").symlink_to(outside)
    (source / "second").symlink_to(outside)
    (source / "third").write_text("a file")
    workshop.install(PluginSource(str(source), folder=True))
    (source / "second").unlink()
    (source / "second").write_text("a file now")
    (source / "third").unlink()
    (source / "third").symlink_to(outside)
    workshop.update("weather")
    place = hermes_home / "plugins" / "weather"
    assert outside.read_text() == "mine"
    assert (place / "second").read_text() == "a file now"
    assert [(place / name).is_symlink() for name in ("first", "second", "third")] == [
        True, False, True,
    ]  # fmt: skip


def test_a_record_that_cannot_be_read_is_noticed_before_anything_is_installed(
    workshop: PluginInstaller, tmp_path: Path, hermes_home: Path
) -> None:
    source = write_plugin(tmp_path, "weather")
    folder = hermes_home / "plugins"
    folder.mkdir(parents=True)
    (folder / ".installed.json").write_text("{bad")
    with pytest.raises(ConfigError, match="cannot be read"):
        workshop.install(PluginSource(str(source), folder=True))
    assert [place.name for place in folder.iterdir()] == [".installed.json"]


def test_update_is_refused_when_the_user_changed_files(workshop, repository, hermes_home):
    workshop.install(PluginSource(repository.as_uri()))
    (hermes_home / "plugins" / "weather" / "__init__.py").write_text("# mine\n")
    (repository / "__init__.py").write_text("# theirs\n")
    commit(repository)
    with pytest.raises(PluginFetchError, match="local changes") as told:
        workshop.update("weather")
    assert "--force" in told.value.hint


def test_missing_git_is_reported(tmp_path: Path) -> None:
    workshop = PluginInstaller(tmp_path / "plugins", PluginFetcher({"PATH": str(tmp_path)}))
    with pytest.raises(HermesError, match="git is not installed"):
        workshop.install(PluginSource("https://127.0.0.1:1/x.git"))
