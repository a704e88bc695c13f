"""The list of skills in the prompt."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from hermes.skills.ranking import ranked
from hermes.skills.shelf import Shelf
from hermes.skills.skill import Circle
from hermes.skills.usage import Use
from hermes.skills.visibility import hidden_numbers
from hermes.skills.words import shortened

CATEGORY_LINE = 60
"""Characters of what a category is for."""
CATEGORIES = 200
"""Characters for the names of categories that are not listed whole."""
GENERAL = "general"
"""The heading of skills without a category."""
LEAST = 10
"""Fewer characters has no line of a skill."""

INTRODUCTION = """\
## Skills (mandatory)
Before you work, load each skill that fits even in part with skill_view(name), and follow it. \
Mend one that is wrong or outdated at once with skill_manage.
<available_skills>"""
END = "</available_skills>"
SHORTEST = "Skills: find one with skills_list(query), load it with skill_view(name)."


def skills_index(
    shelf: Shelf,
    circle: Circle,
    uses: Mapping[str, Use],
    budget: int,
    now: float,
    hints: Iterable[str] = (),
) -> str:
    """The prompt layer, with at most `budget` characters; "" when no skill is visible.

    `hints` are names of files and folders of the work at hand. The same inputs give the same text,
    in the same order.
    """
    hidden = hidden_numbers(shelf, circle)
    count = len(shelf.names) - len(hidden)
    if not count:
        return ""
    if LEAST * count < budget:
        numbers = (number for number in range(len(shelf.names)) if number not in hidden)
        shown = {number: _line(shelf, number) for number in numbers}
        for described in (shelf.categories, {}):
            text = _layer(_lines(shelf, shown, described))
            if len(text) <= budget:
                return text
    order = ranked(shelf, uses, now, hints)
    return _within(shelf, (number for number in order if number not in hidden), hidden, budget)


def _within(shelf: Shelf, order: Iterable[int], hidden: AbstractSet[int], budget: int) -> str:
    """The first ones, as many as there is room for, and how many more there are."""
    left = dict.fromkeys((run.category for run in shelf.runs), 0)
    for run in shelf.runs:
        left[run.category] += len(run.numbers)
    for number in hidden:
        left[shelf.run_of(number).category] -= 1
    names = min(CATEGORIES, len(_names(left)))
    room = budget - len(_layer([_more(sum(left.values()), "x" * names)]))
    taken: dict[int, str] = {}
    headed: set[str] = set()
    for number in order:
        category, line = shelf.run_of(number).category, _line(shelf, number)
        cost = len(line) + 1
        if category not in headed:
            cost += len(_heading(category)) + 1
        if cost > room:
            break
        room -= cost
        headed.add(category)
        taken[number] = line
        left[category] -= 1
    if not taken:
        return SHORTEST if len(SHORTEST) <= budget else ""
    rest = [category for category, count in left.items() if count]
    more = [_more(sum(left.values()), _names(rest))] if rest else []
    return _layer([*_lines(shelf, taken, {}), *more])


def _layer(lines: Iterable[str]) -> str:
    return "\n".join([INTRODUCTION, *lines, END])


def _lines(shelf: Shelf, lines: Mapping[int, str], described: Mapping[str, str]) -> Iterable[str]:
    """By category and name, whichever folder they come from."""
    by_category: dict[str, list[int]] = {}
    for number in lines:
        by_category.setdefault(shelf.run_of(number).category, []).append(number)
    for category in sorted(by_category):
        yield _heading(category, described.get(category, ""))
        members = sorted(by_category[category], key=shelf.names.__getitem__)
        yield from map(lines.__getitem__, members)


def _heading(category: str, about: str = "") -> str:
    return f"{category or GENERAL}: {_tame(shortened(about, CATEGORY_LINE))}".rstrip()


def _line(shelf: Shelf, number: int) -> str:
    return f"  - {shelf.names[number]}: {_tame(shelf.text_of(number))}"


def _tame(text: str) -> str:
    """It cannot end the list."""
    return text.replace("</", "<")


def _more(count: int, names: str) -> str:
    return f"{count:,} more ({shortened(names, CATEGORIES)}): skills_list(query) finds them."


def _names(categories: Iterable[str]) -> str:
    return ", ".join(sorted(category or GENERAL for category in categories))
