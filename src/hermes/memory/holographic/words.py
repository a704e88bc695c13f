"""Words of a text, as facts are compared and found by them."""

import re
import unicodedata

from hermes.store.search.scripts import is_unspaced

_STOP = """
    a about above after again all also always am an and any are aren't as at be because been before
    being but by can can't cannot could did didn't do does doesn't doing don't done each else etc
    ever every few for from get gets getting give go going good got had has hasn't have haven't
    having he help her here hers him his how i i'd i'll i'm i've if in into is isn't it it's its
    just kind know less let let's like likes look lot made make makes many may me might mine more
    most much must my need needs never new no not nothing now of off ok okay on once one only or
    other our ours out over own please prefer prefers put really remember said same say see she
    should show so some something still such sure take tell than thank thanks that that's the
    their theirs them then there there's these they thing things this those through to too try up
    us use used user uses using very want wants was way we well were what what's when where which
    while who whom whose why will with without won't work works would yes yet you you're your yours
"""

STOP_WORDS = frozenset(_STOP.split())
"""Words that say nothing about what a text is about."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)*|_")


def words(text: str) -> tuple[str, ...]:
    """In order. What is written without spaces becomes pairs of characters."""
    found: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = match[0].replace("’", "'")
        if word == "_":
            continue
        found.extend(_pairs(word) if is_unspaced(word) else (word.removesuffix("'s"),))
    return tuple(word for word in found if word)


def telling(text: str) -> tuple[str, ...]:
    """The words that say what a text is about, each once."""
    return tuple(dict.fromkeys(word for word in words(text) if word not in STOP_WORDS))


def folded(text: str) -> str:
    """Equal for texts that differ only in letter case, signs and spaces."""
    return " ".join(words(text))


def _pairs(run: str) -> tuple[str, ...]:
    if len(run) == 1:
        return (run,)
    return tuple(run[at : at + 2] for at in range(len(run) - 1))
