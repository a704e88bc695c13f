"""From `terminal.*` settings to a place; nothing is started."""

from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from hermes.app.workspace import SessionWorkspace, make_workspace
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, ConfigError
from tests.cases import cases

CASES = cases(__file__)


@pytest.fixture
def place(hermes_home: Path, tmp_path: Path):
    def make(**terminal: Any) -> SessionWorkspace:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(yaml.safe_dump({"terminal": terminal}))
        home = Home(hermes_home)
        return make_workspace(load(home), home, tmp_path, print)

    return make


@pytest.mark.parametrize(("backend", "more", "isolated", "here"), CASES["backends"])
def test_every_backend_makes_a_place_without_starting_anything(
    place, backend, more, isolated, here
):
    before = set(psutil.Process().children(recursive=True))
    found = place(backend=backend, **more)
    assert (found.workplace.name, found.workplace.isolated, found.here) == (backend, isolated, here)
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize(
    ("terminal", "words"),
    [({"cwd": "nowhere"}, "there is no folder"), ({"backend": "ssh"}, "ssh_host")],
)
def test_what_is_missing_is_a_config_error(place, terminal, words):
    with pytest.raises(ConfigError, match=words):
        place(**terminal)


def test_the_folder_of_the_settings_is_the_workspace(place, tmp_path):
    (tmp_path / "sub").mkdir()
    found = place(cwd="sub")
    assert (found.folder, found.guard.workspace) == (str(tmp_path / "sub"), (tmp_path / "sub",))
    assert found.workplace.shell.cwd == str(tmp_path / "sub")


async def test_a_sandbox_sees_what_is_in_force_when_it_is_first_used(place, tmp_path, monkeypatch):
    shell = place(backend="sandbox").workplace.shell
    await shell.close()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="bubblewrap is not installed"):
        await shell.run("true", timeout=10, on_output=print, cancel=CancelToken())


def test_on_another_machine_keys_are_protected_wherever_the_home_is(place):
    guard = place(backend="ssh", ssh_host="box", ssh_user="alice").guard
    for home in ("/home/alice", "/root", "/Users/alice"):
        assert guard.write_refusal(f"{home}/.ssh/authorized_keys")
    assert not guard.write_refusal("/home/alice/notes.txt")


def test_plugin_backend_is_found_and_an_unknown_one_is_refused(hermes_home: Path, tmp_path: Path):
    home = Home(hermes_home)
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(
        "plugins: {enabled: [box]}\nterminal: {backend: box}\nbox: {size: 3}\n"
    )
    loaded, unknown = load(home), r"expected one of local, .*modal.*, found \"box\""
    with pytest.raises(ConfigError, match=unknown):
        make_workspace(loaded, home, tmp_path, print)
    (hermes_home / "config.yaml").write_text("terminal: {backend: box}\n")
    with pytest.raises(ConfigError, match=unknown):
        load(home)
