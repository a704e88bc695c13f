"""The skins that come with Hermes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.tui.skins import BUILTIN, Skin, find_skin
from hermes.tui.text import DEFAULT_COLOURS, NAMES, Depth, Paint, codes, safe, width

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
BEHIND = {"daylight": [WHITE], "warm-lightmode": [WHITE], "default": [WHITE, BLACK]}
LEVELS = (0, 95, 135, 175, 215, 255)
NOWHERE = Path("nowhere")

Colour = tuple[int, int, int]


@pytest.fixture(params=list(BUILTIN))
def skin(request: pytest.FixtureRequest) -> Skin:
    return find_skin(request.param, NOWHERE)


def test_the_names_people_know() -> None:
    assert list(BUILTIN) == [
        "default", "ares", "mono", "slate", "daylight", "warm-lightmode", "poseidon", "sisyphus",
        "charizard",
    ]  # fmt: skip
    assert [find_skin(name, NOWHERE).name for name in BUILTIN] == list(BUILTIN)


def luminance(colour: Colour) -> float:
    """WCAG 2: relative luminance."""
    parts = [channel / 255 for channel in colour]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def shown(look: str, depth: Depth) -> Iterator[Colour]:
    """The colours a terminal really shows."""
    code = codes(look, depth)
    for found in re.finditer(r"38;2;(\d+);(\d+);(\d+)", code):
        yield int(found[1]), int(found[2]), int(found[3])
    for found in re.finditer(r"38;5;(\d+)", code):
        number = int(found[1]) - 16
        yield LEVELS[number // 36], LEVELS[number // 6 % 6], LEVELS[number % 6]


def test_contrast_is_measured_as_wcag_does() -> None:
    assert round(contrast(WHITE, BLACK), 2) == 21
    assert round(contrast((0x77, 0x77, 0x77), WHITE), 2) == 4.48
    assert list(shown("bold #ff8700", Depth.INDEXED)) == [(255, 135, 0)]


@pytest.mark.parametrize("depth", [Depth.TRUE, Depth.INDEXED])
def test_every_colour_can_be_read(skin: Skin, depth: Depth) -> None:
    for role, look in Paint(skin.colors).colours.items():
        for colour in shown(look, depth):
            for behind in BEHIND.get(skin.name, [BLACK]):
                assert contrast(colour, behind) >= 3, role


def test_no_colour_is_left_to_the_palette_of_the_terminal(skin: Skin) -> None:
    """What a terminal calls blue may be unreadable on its background."""
    for role, look in Paint(skin.colors).colours.items():
        assert not {word.removeprefix("bright_") for word in look.split()} & set(NAMES), role
    assert skin.colors.keys() <= DEFAULT_COLOURS.keys()
    assert skin.name != "mono" or not any("#" in look for look in skin.colors.values())


def test_symbols_and_words_fit(skin: Skin) -> None:
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
