"""Which home is in force, and what happens when it cannot be used."""

import errno
import os
import threading
from pathlib import Path

import pytest

from hermes.config.home import (
    Home,
    check_home,
    choose_profile,
    create_profile,
    default_root,
    delete_profile,
    display_hermes_home,
    ensure_hermes_home,
    get_hermes_home,
    list_profiles,
    unusable,
    use_home,
)
from hermes.config.loader import load
from hermes.core.errors import ConfigError, UsageError


@pytest.fixture
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_HOME")


def test_without_anything_the_home_is_in_the_users_folder(no_variable, user_home: Path) -> None:
    assert Home.resolve().root == user_home / ".hermes"
    assert display_hermes_home() == "~/.hermes"
    assert Home.resolve().profile == "default"


def test_the_variable_names_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "h"))
    assert get_hermes_home() == tmp_path / "h"
    monkeypatch.setenv("HERMES_HOME", "~/elsewhere")
    assert display_hermes_home() == "~/elsewhere"


def test_looking_creates_nothing_and_a_new_home_is_private(hermes_home: Path) -> None:
    home = Home.resolve()
    check_home(home)
    load(home)
    list_profiles()
    assert not hermes_home.exists()
    assert ensure_hermes_home() == hermes_home
    assert hermes_home.stat().st_mode & 0o777 == 0o700


def test_profiles_are_folders_of_one_root(hermes_home: Path) -> None:
    made = create_profile("work")
    assert made.root == hermes_home / "profiles" / "work"
    assert made.root.stat().st_mode & 0o777 == 0o700
    assert Home.resolve("work") == made
    assert Home.resolve("default").root == hermes_home
    assert (made.profile, made.default_root) == ("work", hermes_home)
    assert made.models == hermes_home / "models"
    assert [home.profile for home in list_profiles()] == ["default", "work"]


def test_the_option_beats_the_variable_that_names_another_profile(monkeypatch, hermes_home) -> None:
    create_profile("work")
    create_profile("play")
    monkeypatch.setenv("HERMES_HOME", str(hermes_home / "profiles" / "work"))
    assert Home.resolve().profile == "work"
    assert default_root() == hermes_home
    assert Home.resolve("play").root == hermes_home / "profiles" / "play"


def test_a_chosen_profile_sticks_until_another_is_chosen(no_variable, user_home: Path) -> None:
    create_profile("work")
    choose_profile("work")
    assert Home.resolve().profile == "work"
    assert (user_home / ".hermes" / "active_profile").read_text() == "work\n"
    assert Home.resolve("default").profile == "default"
    choose_profile("default")
    assert Home.resolve().profile == "default"


def test_a_chosen_profile_that_vanished_says_how_to_go_back(
    no_variable, user_home, monkeypatch, tmp_path
) -> None:
    create_profile("work")
    choose_profile("work")
    with monkeypatch.context() as shell:
        shell.setenv("HERMES_HOME", str(tmp_path))
        assert Home.resolve().root == tmp_path, "the variable beats the chosen profile"
    delete_profile("work")
    assert Home.resolve().profile == "default"
    create_profile("work")
    choose_profile("work")
    (user_home / ".hermes" / "profiles" / "work").rmdir()
    with pytest.raises(ConfigError, match="'work' does not exist") as caught:
        Home.resolve()
    assert "hermes -p default profile use default" in caught.value.hint


def test_a_bad_profile_name_is_refused(no_variable, user_home: Path) -> None:
    for name in ("", "Work", "a b", "../x", "-x", "ä", "x" * 65, "a/b", "."):
        with pytest.raises(UsageError, match="cannot be the name of a profile"):
            Home.of_profile(name)
    (user_home / ".hermes").mkdir()
    (user_home / ".hermes" / "active_profile").write_text("../../etc\n")
    with pytest.raises(ConfigError, match="not the name of a profile"):
        Home.resolve()


def test_an_unknown_profile_is_refused_and_not_made(hermes_home: Path) -> None:
    with pytest.raises(UsageError, match="no profile 'nope'") as caught:
        Home.resolve("nope")
    assert "hermes profile create nope" in caught.value.hint
    assert not hermes_home.exists()


def test_the_default_profile_cannot_be_deleted_or_made(hermes_home: Path) -> None:
    with pytest.raises(UsageError, match="cannot be deleted"):
        delete_profile("default")
    with pytest.raises(UsageError, match="exists already"):
        create_profile("default")


def test_a_clone_has_the_settings_and_a_full_clone_also_the_rest(hermes_home: Path) -> None:
    hermes_home.mkdir()
    source = Home(hermes_home)
    source.config_file.write_text("timezone: UTC\n")
    source.env_file.write_text("A_KEY=1\n")
    source.env_file.chmod(0o600)
    (hermes_home / "memories").mkdir()
    (hermes_home / "memories" / "MEMORY.md").write_text("x")
    (hermes_home / "logs").mkdir()
    (hermes_home / "gateway.pid").write_text("1")
    some = create_profile("some", source=source)
    assert sorted(path.name for path in some.root.iterdir()) == [".env", "config.yaml"]
    assert some.env_file.stat().st_mode & 0o777 == 0o600
    everything = create_profile("all", source=source, everything=True)
    names = sorted(path.name for path in everything.root.iterdir())
    assert names == [".env", "config.yaml", "memories"]
    assert everything.root.stat().st_mode & 0o777 == 0o700


def test_a_process_sees_the_home_it_was_given_in_all_its_threads(tmp_path: Path) -> None:
    seen: list[Path] = []
    with use_home(Home(tmp_path)):
        thread = threading.Thread(target=lambda: seen.append(get_hermes_home()))
        thread.start()
        thread.join()
    assert seen == [tmp_path]
    assert get_hermes_home() != tmp_path


def test_a_home_that_is_a_file_is_one_clear_line(monkeypatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for call in (check_home, load, ensure_hermes_home):
        with pytest.raises(ConfigError) as caught:
            call(Home(file))
        assert "\n" not in str(caught.value)
        assert "must name a folder" in caught.value.hint


def test_a_home_that_may_not_be_read_is_one_clear_line(open_folder, as_ordinary_user) -> None:
    root = open_folder / "h"
    root.mkdir(mode=0o700)
    if os.geteuid() != 0:
        root.chmod(0o000)
    with as_ordinary_user(), pytest.raises(ConfigError, match="permission denied") as caught:
        load(Home(root))
    assert "HERMES_HOME" in caught.value.hint
    root.chmod(0o700)


def test_a_home_that_may_not_be_written_is_one_clear_line(open_folder, as_ordinary_user) -> None:
    root = open_folder / "h"
    root.mkdir()
    root.chmod(0o555)
    with as_ordinary_user(), pytest.raises(ConfigError, match="cannot write to"):
        ensure_hermes_home(Home(root))
    with as_ordinary_user(), pytest.raises(ConfigError, match="permission denied"):
        ensure_hermes_home(Home(root / "deeper"))


def test_a_read_only_home_names_the_next_step() -> None:
    error = unusable(Path("/home/user/.hermes"), OSError(errno.EROFS, "Read-only file system"))
    assert str(error) == "cannot use /home/user/.hermes: read-only file system"
    assert "HERMES_HOME" in error.hint
