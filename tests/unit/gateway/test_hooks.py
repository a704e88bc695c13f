"""Which hooks a gateway has."""

from pathlib import Path

from hermes.gateway.hooks import BUILTIN, HookRegistry


def written(folder: Path, name: str, event: str = "gateway:startup") -> None:
    here = folder / name
    here.mkdir(parents=True)
    (here / "HOOK.yaml").write_text(f"name: {name}\nevents: ['{event}']\n")
    (here / "handler.py").write_text(
        "def handle(event_type, context): context['heard'].append(1)\n"
    )


def test_builtin_hooks_are_loaded_before_those_of_the_home(tmp_path):
    ours, home = tmp_path / "ours", tmp_path / "home"
    written(ours, "zebra")
    written(home, "ant")
    messages: list[str] = []
    found = HookRegistry.load(home, messages.append, builtin=ours)
    assert ([hook.name for hook in found.hooks], messages) == (["zebra", "ant"], [])


def test_broken_hook_does_not_prevent_the_others(tmp_path):
    ours, home = tmp_path / "ours", tmp_path / "home"
    written(ours, "odd", event="nothing:known")
    written(home, "ant")
    messages: list[str] = []
    found = HookRegistry.load(home, messages.append, builtin=ours)
    assert [hook.name for hook in found.hooks] == ["ant"]
    assert messages[0].startswith("hook odd is left out")


def test_builtin_hooks_load_without_a_folder_in_the_home(tmp_path):
    messages: list[str] = []
    found = HookRegistry.load(tmp_path / "none", messages.append)
    there = {each.parent.name for each in BUILTIN.glob("*/HOOK.yaml")}
    assert {hook.name for hook in found.hooks} == there
    assert BUILTIN.is_dir() and not messages


def test_single_event_needs_no_list(tmp_path):
    written(tmp_path, "ant")
    (tmp_path / "ant" / "HOOK.yaml").write_text("name: ant\nevents: agent:start\n")
    messages: list[str] = []
    (hook,) = HookRegistry.load(tmp_path, messages.append, builtin=tmp_path / "none").hooks
    assert (hook.events, messages) == (("agent:start",), [])
