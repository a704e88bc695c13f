"""The built-in skins, skins of the user, and the messages about invalid ones."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.config.settings import DisplaySettings
from hermes.core.errors import UsageError
from hermes.tui.markdown.code import syntax_colours
from hermes.tui.skins import (
    BACKGROUNDS,
    Branding,
    DisplayState,
    Skin,
    Spinner,
    find_skin,
    skin_names,
    skin_or_default,
)
from hermes.tui.text import (
    COLOUR_NAMES,
    DEFAULT_COLOURS,
    Depth,
    Paint,
    contrast,
    escape_codes,
    safe,
    width,
)
from tests.cases import cases

CASES = cases(__file__)

WHITE, BLACK, PAPER, INK = (255, 255, 255), (0, 0, 0), (253, 246, 227), (30, 30, 46)
LEVELS = (0, 95, 135, 175, 215, 255)
NOWHERE = Path("nowhere")

Colour = tuple[int, int, int]


BUILTIN = [
    "default", "kawaii", "ares", "mono", "daylight", "warm-lightmode", "poseidon", "sisyphus",
    "charizard",
]  # fmt: skip


@pytest.fixture(params=BUILTIN)
def skin(request: pytest.FixtureRequest) -> Skin:
    return find_skin(request.param, NOWHERE)


def test_builtin_skins_have_the_documented_names() -> None:
    assert skin_names(NOWHERE) == BUILTIN
    assert [find_skin(name, NOWHERE).name for name in BUILTIN] == BUILTIN


def test_the_default_skin_is_sober_and_the_earlier_one_can_be_chosen() -> None:
    sober, faces = find_skin("default", NOWHERE), find_skin("kawaii", NOWHERE)
    assert not sober.tool_emojis
    assert all(width(face) == 1 for face in sober.spinner.waiting_faces)
    assert faces.tool_emojis["terminal"] == "💻"
    assert find_skin("slate", NOWHERE) == sober


def shown(code: str) -> Iterator[Colour]:
    """The text colours that a terminal really shows."""
    for found in re.finditer(r"38;2;(\d+);(\d+);(\d+)", code):
        yield int(found[1]), int(found[2]), int(found[3])
    for found in re.finditer(r"38;5;(\d+)", code):
        number = int(found[1]) - 16
        yield LEVELS[number // 36], LEVELS[number // 6 % 6], LEVELS[number % 6]


def test_contrast_is_computed_as_wcag_defines_it() -> None:
    assert round(contrast(WHITE, BLACK), 2) == 21
    assert round(contrast((0x77, 0x77, 0x77), WHITE), 2) == 4.48
    assert list(shown(escape_codes("bold #ff8700", Depth.INDEXED))) == [(255, 135, 0)]


@pytest.mark.parametrize("depth", [Depth.TRUE, Depth.INDEXED])
@pytest.mark.parametrize("behind", [WHITE, PAPER, INK, BLACK, *BACKGROUNDS.values()])
def test_every_colour_is_readable_on_light_and_dark_backgrounds(
    skin: Skin, depth: Depth, behind: Colour
) -> None:
    display = DisplayState(DisplaySettings(), skin, depth)
    display.set_background(behind)
    colours = {**syntax_colours(depth, behind), **display.paint.colours}
    paint = Paint(colours, depth, background=behind)
    for role in paint.colours.keys() - {"rule"}:  # which is not text
        for colour in shown(paint(role, "x")):
            assert contrast(colour, behind) >= 4.5, role


def test_a_known_background_changes_the_colours_and_keeps_the_skin() -> None:
    display = DisplayState(DisplaySettings(), find_skin("default", NOWHERE), Depth.TRUE)
    unknown = display.paint("accent", "x")
    display.set_background(BLACK)
    assert display.paint("accent", "x") == unknown
    display.set_background(WHITE)
    assert display.paint("accent", "x") != unknown
    assert display.skin.name == "default"
    chosen = DisplayState(DisplaySettings(background="light"), display.skin, Depth.TRUE)
    assert chosen.paint("accent", "x") != unknown


def test_builtin_skins_use_no_named_colours(skin: Skin) -> None:
    """What a terminal calls blue may be unreadable on its background."""
    for role, look in Paint(skin.colors).colours.items():
        assert not {word.removeprefix("bright_") for word in look.split()} & set(COLOUR_NAMES), role
    assert skin.colors.keys() <= DEFAULT_COLOURS.keys()
    assert skin.name != "mono" or not any("#" in look for look in skin.colors.values())


def test_symbols_and_faces_have_valid_widths(skin: Skin) -> None:
    symbols = [skin.branding.prompt_symbol, skin.tool_prefix, *skin.tool_emojis.values()]
    assert {width(each) for each in symbols} <= {1, 2}
    assert {width(each) for each in skin.tool_emojis.values()} <= {2}
    assert not any("\ufe0f" in each for each in symbols)  # terminals disagree on its width
    spinner = skin.spinner
    assert max(map(width, (*spinner.waiting_faces, *spinner.thinking_faces))) <= 16
    assert spinner.thinking_verbs
    words = (*spinner.waiting_faces, *spinner.thinking_verbs, *symbols, skin.branding.welcome)
    assert all(safe(each) == each for each in words)
    assert skin.description
    assert skin.branding.prompt_symbol
    assert skin.branding.goodbye


COMPLETE = CASES["complete"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "skins"
    folder.mkdir()
    return folder


def write(folder: Path, text: str | bytes, name: str = "mine") -> None:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / f"{name}.yaml").write_bytes(data)


def test_user_skin_can_set_every_key(folder: Path) -> None:
    write(folder, COMPLETE)
    skin, base = find_skin("mine", folder), find_skin("default", folder)
    assert skin == Skin(
        name="mine",
        description="Moss and bark",
        colors={**base.colors, "accent": "bold #8fbc8f", "error": "bright_red"},
        light_colors={
            **{role: look for role, look in base.light_colors.items() if role != "error"},
            "accent": "bold #2e6b3a",
        },
        spinner=Spinner((".", "o", "O"), (), ("growing",), (("<", ">"), ("(", ")"))),
        branding=Branding("Dryad", "The forest listens.", "Leaves fall.", "❦ Dryad", "❦", "Paths"),
        tool_prefix="♣",
        tool_emojis={**base.tool_emojis, "terminal": "🌲"},
    )


def test_missing_keys_come_from_the_default_skin(folder: Path) -> None:
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


def test_user_skins_are_listed_after_builtin_ones_and_override_them(folder: Path) -> None:
    assert skin_names(folder / "missing")[:2] == ["default", "kawaii"]
    for name in ("zebra", "mine", "ares", "no good"):
        write(folder, "tool_prefix: '>'", name)
    (folder / "notes.txt").write_text("no skin")
    assert skin_names(folder)[-3:] == ["charizard", "mine", "zebra"]
    assert skin_names(folder).count("ares") == 1
    assert find_skin("ares", folder).tool_prefix == ">"


@pytest.mark.parametrize("name", ["nope", "", "../mine", "a/b", "mine.yaml", "x" * 300, "a\0b"])
def test_unknown_name_lists_the_skins(name: str, folder: Path) -> None:
    write(folder.parent, "tool_prefix: '>'")
    with pytest.raises(UsageError, match="there is no skin") as caught:
        find_skin(name, folder)
    assert "default, kawaii, ares, mono" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *CASES["invalid skins"],
        (b"name: \xff", "is not UTF-8 text"),
        ("a: &a [1]\n" * 21_000, "is too large for a skin"),
    ],
)
def test_invalid_skin_is_reported_with_file_and_key(text, message, folder):
    write(folder, text)
    with pytest.raises(UsageError) as caught:
        find_skin("mine", folder)
    assert message in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    skin, complaint = skin_or_default("mine", folder)
    assert skin == find_skin("default", folder)
    assert message in complaint
    assert complaint.endswith("the default skin is used")


def test_valid_skin_gives_no_message(folder: Path) -> None:
    assert skin_or_default("slate", folder) == (find_skin("slate", folder), "")
