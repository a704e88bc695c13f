"""Names of skills."""

import re
import unicodedata

_PLAIN_NAME = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")


def plain_name(text: str) -> str:
    """`text` as the name of a skill: `PDF Tools_2` is `pdf-tools-2`; "" when nothing is left."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    folded = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(each if _in_names(each) else " " for each in folded)
    return "-".join(filter(None, (part.strip(".") for part in kept.split())))


def listed_name(text: str) -> str:
    """As the skill is listed that somebody calls so, also as `category/name` or `plugin:name`."""
    plugin, colon, last = text.strip().rpartition("/")[2].rpartition(":")
    return f"{plugin.strip()}{colon}{plain_name(last)}"


def _in_names(char: str) -> bool:
    """Letters and digits of any script, with the marks that belong to them."""
    return char.isalnum() or char == "." or unicodedata.category(char).startswith("M")
