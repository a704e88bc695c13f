"""Skins of the user, and what is told about wrong ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.tui.skins import Branding, Skin, Spinner, find_skin, skin_names, skin_or_default

WHOLE = """\
name: whatever
description: Moss and bark
colors:
  accent: "bold #8fbc8f"
  error: bright_red
spinner:
  waiting_faces: [".", "o", "O"]
  thinking_faces: []
  thinking_verbs: [growing]
  wings: [["<", ">"], ["(", ")"]]
branding:
  agent_name: Dryad
  welcome: The forest listens.
  goodbye: Leaves fall.
  response_label: "❦ Dryad"
  prompt_symbol: "❦"
  help_header: Paths
tool_prefix: "♣"
tool_emojis:
  terminal: "🌲"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "skins"
    folder.mkdir()
    return folder


def write(folder: Path, text: str | bytes, name: str = "mine") -> None:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / f"{name}.yaml").write_bytes(data)


def test_every_key_can_be_set(folder: Path) -> None:
    write(folder, WHOLE)
    skin, base = find_skin("mine", folder), find_skin("default", folder)
    assert skin == Skin(
        name="mine",
        description="Moss and bark",
        colors={**base.colors, "accent": "bold #8fbc8f", "error": "bright_red"},
        spinner=Spinner((".", "o", "O"), (), ("growing",), (("<", ">"), ("(", ")"))),
        branding=Branding("Dryad", "The forest listens.", "Leaves fall.", "❦ Dryad", "❦", "Paths"),
        tool_prefix="♣",
        tool_emojis={**base.tool_emojis, "terminal": "🌲"},
    )


def test_what_is_missing_is_as_in_the_default_skin(folder: Path) -> None:
    base = find_skin("default", folder)
    write(folder, "branding: {agent_name: Bob}\n")
    skin = find_skin("mine", folder)
    assert skin.branding.agent_name == "Bob"
    assert skin.branding.welcome == base.branding.welcome
    assert (skin.colors, skin.spinner, skin.tool_emojis) == (
        base.colors, base.spinner, base.tool_emojis,
    )  # fmt: skip
    write(folder, "")
    assert find_skin("mine", folder).branding == base.branding
    write(folder, "\ufefftool_emojis: {}\r\ntool_prefix: '>'\r\n")
    assert find_skin("mine", folder).tool_emojis == {}


def test_names_of_both_kinds(folder: Path) -> None:
    assert skin_names(folder / "missing")[:2] == ["default", "ares"]
    for name in ("zebra", "mine", "ares", "no good"):
        write(folder, "tool_prefix: '>'", name)
    (folder / "notes.txt").write_text("no skin")
    assert skin_names(folder)[-3:] == ["charizard", "mine", "zebra"]
    assert skin_names(folder).count("ares") == 1
    assert find_skin("ares", folder).tool_prefix == ">"


@pytest.mark.parametrize("name", ["nope", "", "../mine", "a/b", "mine.yaml", "x" * 300, "a\0b"])
def test_a_name_that_is_none(name: str, folder: Path) -> None:
    write(folder.parent, "tool_prefix: '>'")
    with pytest.raises(UsageError, match="there is no skin") as caught:
        find_skin(name, folder)
    assert "default, ares, mono" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colors: [\n", "mine.yaml:2:1: "),
        ("- a\n- b\n", "mine.yaml:1:1: expected keys and values"),
        ("colours: {}", "mine.yaml:1:1: colours: is not known; did you mean colors?"),
        ("banner: x", "mine.yaml:1:1: banner: is not known; there are name, description,"),
        (
            "colors:\n  acent: red",
            "mine.yaml:2:3: colors.acent: is not known; did you mean accent?",
        ),
        ("colors: {accent: mauve}", "mine.yaml:1:10: colors.accent: 'mauve' is no colour"),
        ("colors: {accent: '#12345'}", "colors.accent: '#12345' is no colour"),
        ("colors:\n  accent: #ff0000\n", "colors.accent: must be text; put it in quotes"),
        ("colors: red", "colors: must be a block of `key: value` lines"),
        ("colors: {1: red}", "colors.1: is no name; put it in quotes"),
        ("branding: {agent_name: 7}", "branding.agent_name: must be text; put it in quotes"),
        ("branding: {agent_name: !!binary aGk=}", "branding.agent_name: must be text"),
        ('branding: {welcome: "\\e[31mred"}', "branding.welcome: holds control characters"),
        ('branding: {welcome: "a\\nb"}', "branding.welcome: holds control characters"),
        ('branding: {goodbye: "a\\u202Eb"}', "branding.goodbye: holds control characters"),
        (
            "branding: {prompt_symbol: '>>>'}",
            "branding.prompt_symbol: is 3 columns wide, at most 2",
        ),
        ("branding: {prompt_symbol: ' '}", "branding.prompt_symbol: must be one or two columns"),
        ("tool_prefix: ''", "tool_prefix: must be one or two columns"),
        ("tool_emojis: {terminal: 日本}", "tool_emojis.terminal: is 4 columns wide, at most 2 fit"),
        ("tool_emojis: {terminal: }", "tool_emojis.terminal: must be text"),
        ("spinner: {waiting_faces: '.oO'}", "spinner.waiting_faces: must be a list"),
        ("spinner: {waiting_faces: []}", "spinner.waiting_faces: must have 1 to 100 entries"),
        (
            "spinner:\n  waiting_faces:\n  - a\n  - 1\n",
            "mine.yaml:4:5: spinner.waiting_faces.1: must",
        ),
        (f"spinner: {{thinking_verbs: [{'x' * 40}]}}", "spinner.thinking_verbs.0: is 40 columns"),
        ("spinner: {wings: [[a, b, c]]}", "spinner.wings.0: must be a pair"),
        ("spinner: {speed: 1}", "spinner.speed: is not known; there are waiting_faces"),
        ('"\\e[2J": x', "mine.yaml:1:1: : is not known; there are name"),
        ("tool_prefix: a\ntool_prefix: b\n", "tool_prefix: stands there twice"),
        (b"name: \xff", "is not UTF-8 text"),
        ("a: &a [1]\n" * 21_000, "is too large for a skin"),
    ],
)
def test_a_wrong_skin_is_told_with_file_and_key(text: str | bytes, told: str, folder: Path) -> None:
    write(folder, text)
    with pytest.raises(UsageError) as caught:
        find_skin("mine", folder)
    assert told in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    skin, message = skin_or_default("mine", folder)
    assert skin == find_skin("default", folder)
    assert told in message
    assert message.endswith("the default skin is used")


def test_a_skin_that_is_well_says_nothing(folder: Path) -> None:
    assert skin_or_default("slate", folder) == (find_skin("slate", folder), "")


def test_a_skin_of_ours_costs_no_yaml() -> None:
    program = (
        "import sys; from pathlib import Path; from hermes.tui.skins import find_skin; "
        "find_skin('ares', Path('nowhere')); "
        "ours = 'hermes.tui.skins.builtin.'; "
        "print([name for name in sys.modules if name == 'yaml' or name.startswith(ours)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['hermes.tui.skins.builtin.ares']"
