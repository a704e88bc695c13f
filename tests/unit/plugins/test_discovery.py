"""Which plugins are found, which of two counts, and that looking runs nothing."""

import sys
from pathlib import Path

import pytest

from hermes.plugins.discovery import (
    PluginKind,
    PluginOrigin,
    PluginPlaces,
    PluginSelection,
    PluginState,
    bundled_plugins,
    default_places,
    find_plugins,
)
from tests.unit.plugins.stage import Stage, write_plugin

BOOBY_TRAP = "raise SystemExit('this code was run')\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a plugin `parcel`."""
    site = tmp_path / "site"
    info = site / "parcel_pkg-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: parcel-pkg\nVersion: 2.0\nSummary: Counts parcels.\n"
    )
    (info / "entry_points.txt").write_text("[hermes_agent.plugins]\nparcel = parcel_pkg\n")
    (site / "parcel_pkg.py").write_text(
        "def register(ctx):\n    ctx.register_command('parcel', lambda text: 'from a package')\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("parcel_pkg", None)


def found(places: PluginPlaces) -> dict[str, PluginOrigin]:
    return {plugin.name: plugin.origin for plugin in find_plugins(places)}


def test_folders_are_found_without_running_them(tmp_path: Path) -> None:
    write_plugin(tmp_path / "b", "one", BOOBY_TRAP)
    write_plugin(tmp_path / "u", "two", BOOBY_TRAP)
    write_plugin(tmp_path / "p", "three", BOOBY_TRAP)
    places = PluginPlaces(tmp_path / "u", tmp_path / "b", tmp_path / "p")
    assert found(places) == {
        "one": PluginOrigin.BUNDLED,
        "two": PluginOrigin.USER,
        "three": PluginOrigin.PROJECT,
    }


def test_of_two_with_one_name_the_later_origin_counts(tmp_path: Path, package: Path) -> None:
    for folder in "bup":
        write_plugin(tmp_path / folder, "parcel", BOOBY_TRAP)
    none, bundled, user, project = (tmp_path / name for name in ("none", "b", "u", "p"))
    order = [
        ((none, bundled), False, PluginOrigin.BUNDLED, ()),
        ((user, bundled), False, PluginOrigin.USER, (PluginOrigin.BUNDLED,)),
        ((user, None, project), False, PluginOrigin.PROJECT, (PluginOrigin.USER,)),
        ((user,), True, PluginOrigin.PACKAGE, (PluginOrigin.USER,)),
    ]
    for places, packages, origin, hidden in order:
        (plugin,) = find_plugins(PluginPlaces(*places), packages=packages)
        assert (plugin.origin, plugin.hides) == (origin, hidden)


def test_a_package_tells_its_version_and_can_be_loaded(stage: Stage, package: Path) -> None:
    (plugin,) = find_plugins(PluginPlaces(stage.folder))
    assert (plugin.manifest.version, plugin.manifest.description) == ("2.0", "Counts parcels.")
    assert "parcel_pkg" not in sys.modules
    assert [each.problem for each in stage.load("parcel")] == [""]
    assert "parcel" in stage.host.commands


def test_providers_are_listed_apart_and_not_as_plugins(tmp_path: Path) -> None:
    write_plugin(tmp_path / "memory", "elephant", BOOBY_TRAP)
    write_plugin(tmp_path / "context_engine", "window", BOOBY_TRAP)
    write_plugin(tmp_path, "plain", BOOBY_TRAP)
    kinds = {plugin.name: plugin.kind for plugin in find_plugins(PluginPlaces(tmp_path))}
    assert kinds == {
        "plain": PluginKind.PLUGIN,
        "elephant": PluginKind.MEMORY,
        "window": PluginKind.ENGINE,
    }


def test_a_broken_folder_is_shown_with_its_problem(tmp_path: Path) -> None:
    (tmp_path / "no-code").mkdir()
    (tmp_path / "no-code" / "plugin.yaml").write_text("name: no-code\n")
    (tmp_path / "no-manifest").mkdir()
    (tmp_path / "no-manifest" / "__init__.py").write_text("")
    (tmp_path / "neither").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").write_text("")
    problems = {plugin.name: plugin.problem for plugin in find_plugins(PluginPlaces(tmp_path))}
    assert problems.keys() == {"no-code", "no-manifest"}
    assert problems["no-code"] == "__init__.py is missing"
    assert "plugin.yaml: is missing" in problems["no-manifest"]


@pytest.mark.parametrize(
    ("choice", "state"),
    [
        (PluginSelection(), PluginState.NOT_ENABLED),
        (PluginSelection(enabled=("one",)), PluginState.ENABLED),
        (PluginSelection(enabled=("folder-of-one",)), PluginState.ENABLED),
        (PluginSelection(disabled=("one",)), PluginState.DISABLED),
        (PluginSelection(enabled=("one",), disabled=("one",)), PluginState.DISABLED),
        (PluginSelection(enabled=("one",), disabled=("folder-of-one",)), PluginState.DISABLED),
    ],
)
def test_disabled_wins_over_enabled(tmp_path, choice, state):
    write_plugin(tmp_path, "folder-of-one", manifest="name: one\n")
    (plugin,) = find_plugins(PluginPlaces(tmp_path))
    assert choice.state(plugin) is state


def test_a_provider_is_enabled_by_the_setting_that_names_it(tmp_path: Path) -> None:
    write_plugin(tmp_path / "memory", "elephant")
    (plugin,) = find_plugins(PluginPlaces(tmp_path))
    assert PluginSelection(enabled=("elephant",)).state(plugin) is PluginState.NOT_ENABLED
    assert (
        PluginSelection(single={PluginKind.MEMORY: "elephant"}).state(plugin) is PluginState.ENABLED
    )


def test_plugins_of_a_project_are_looked_for_only_when_asked(tmp_path: Path) -> None:
    user = tmp_path / "home" / ".hermes" / "plugins"
    assert default_places(user).project is None
    assert default_places(user, tmp_path).project == tmp_path / ".hermes" / "plugins"
    assert default_places(user, tmp_path / "home").project is None  # they are the user's own


def test_the_bundled_plugins_are_sound() -> None:
    folder = bundled_plugins()
    assert folder is not None
    plugins = find_plugins(PluginPlaces(folder / "nowhere", folder), packages=False)
    assert "disk-cleanup" in {plugin.name for plugin in plugins}
    assert [plugin.problem for plugin in plugins if plugin.problem] == []
