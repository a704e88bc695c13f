"""Ways to disguise a text, each a function; a person still reads the same order."""

import unicodedata
from collections.abc import Callable

_CYRILLIC = str.maketrans("aceiopsxyjdhABCEHIKMOPTXSJ", "асеіорѕхујԁһАВСЕНІКМОРТХЅЈ")
_GREEK = str.maketrans("aeiknoptuvxyABEHIKMNOPTXYZ", "αεικηορτυνχγΑΒΕΗΙΚΜΝΟΡΤΧΥΖ")
_LEET = str.maketrans("aeiostAEIOST", "431057431057")
_SOFT_LEET = str.maketrans("eoi", "301")
_SMALL_CAPITALS = str.maketrans("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ")


def _shifted(small: int, capital: int) -> Callable[[str], str]:
    """Letters moved to another block of the alphabet."""

    def shift(text: str) -> str:
        return "".join(
            chr(small + ord(char) - ord("a"))
            if "a" <= char <= "z"
            else chr(capital + ord(char) - ord("A"))
            if "A" <= char <= "Z"
            else char
            for char in text
        )

    return shift


def _between_letters(mark: str) -> Callable[[str], str]:
    def spread(text: str) -> str:
        pairs = zip(text, text[1:] + " ", strict=True)
        return "".join(a + mark if a.isalpha() and b.isalpha() else a for a, b in pairs)

    return spread


def _between_words(mark: str) -> Callable[[str], str]:
    return lambda text: mark.join(text.split())


def _in_words(before: str, after: str = "") -> Callable[[str], str]:
    """Each word of four letters or more cut after its second letter."""

    def cut(text: str) -> str:
        return " ".join(
            word[:2] + before + word[2:] + after if word[:4].isalpha() and len(word) > 3 else word
            for word in text.split(" ")
        )

    return cut


def _spaced(text: str) -> str:
    return "  ".join(" ".join(word) for word in text.split())


def _evenly_spaced(text: str) -> str:
    return " ".join("".join(text.split()))


def _coded(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form % ord(char) if char.isalpha() else char for char in text)


def _alternating(text: str) -> str:
    return "".join(char.upper() if i % 2 else char.lower() for i, char in enumerate(text))


def _tags(text: str) -> str:
    return "Fine. " + "".join(
        chr(0xE0000 + ord(c)) if c.isascii() and c != "\n" else c for c in text
    )


DISGUISES: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "alternating": _alternating,
    "wide gaps": _between_words("   "),
    "tabs": _between_words("\t"),
    "lines": _between_words("\n"),
    "quoted lines": _between_words("\n> "),
    "hyphens": _between_words("-"),
    "slashes": _between_words(" / "),
    "dots": _between_words(". "),
    "underscores": _between_words("_"),
    "bars": _between_words(" | "),
    "ellipses": _between_words("… "),
    "spaced letters": _spaced,
    "evenly spaced letters": _evenly_spaced,
    "dotted letters": _between_letters("."),
    "zero width spaces": _between_letters("\u200b"),
    "word joiners": _in_words("\u2060"),
    "soft hyphens": _between_letters("\u00ad"),
    "cyrillic": lambda text: text.translate(_CYRILLIC),
    "greek": lambda text: text.translate(_GREEK),
    "full width": _shifted(0xFF41, 0xFF21),
    "mathematical bold": _shifted(0x1D41A, 0x1D400),
    "mathematical sans": _shifted(0x1D5BA, 0x1D5A0),
    "circled": _shifted(0x24D0, 0x24B6),
    "squared": lambda text: _shifted(0x1F170, 0x1F170)(text),
    "small capitals": lambda text: text.lower().translate(_SMALL_CAPITALS),
    "leet": lambda text: text.translate(_LEET),
    "soft leet": lambda text: text.translate(_SOFT_LEET),
    "accents": lambda text: unicodedata.normalize("NFC", _between_letters("\u0301")(text)),
    "tag characters": _tags,
    "bold in words": _in_words("**", "**"),
    "code in words": _in_words("`", "`"),
    "tags in words": _in_words("<b>", "</b>"),
    "comments in words": _in_words("<!-- x -->"),
    "split words": _in_words(" "),
    "run together": lambda text: text.replace(" ", ""),
    "bold words": lambda text: " ".join(f"**{word}**" for word in text.split(" ")),
    "entities": _coded("&#%d;"),
    "hexadecimal entities": _coded("&#x%x;"),
    "a whole document": lambda text: (
        f"# Guide\n\nBuild with `make`.\n\n{text}\n\n## Tests\n\nRun them.\n"
    ),
}
