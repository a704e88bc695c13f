"""The text of a SKILL.md: what must be in it, and replacing a part of it."""

import re
from collections.abc import Sequence

from hermes.skills.comments import comment_lines
from hermes.skills.head import read_head
from hermes.skills.names import plain_name
from hermes.skills.parse import LONGEST_DESCRIPTION
from hermes.skills.skill import SkillInvalid
from hermes.skills.writing.drafts import ChangeRefused

FORM = "begin with\n---\nname: {name}\ndescription: what it does and when to use it\n---"


def problems_of(text: str, name: str) -> dict[str, str]:
    """What is wrong with the text of the skill `name`, and what to correct."""
    form = FORM.format(name=name)
    try:
        head = read_head(text)
    except SkillInvalid as error:
        return {str(error): error.hint}
    if not head.fields:
        return {"it has no head": form}
    found = dict.fromkeys(head.warnings, form)
    named, description = head.fields.get("name"), head.fields.get("description")
    if not isinstance(named, str) or plain_name(named) != name:
        found[f"the name in its head is not {name}"] = f"write `name: {name}`"
    if not isinstance(description, str) or not description.strip():
        found["it has no description"] = form
    elif len(description) > LONGEST_DESCRIPTION:
        found[f"its description has more than {LONGEST_DESCRIPTION:,} characters"] = (
            "say in a sentence or two what it does and when to use it"
        )
    if not head.body.strip():
        found["it has no instructions"] = "write them below the head"
    return found


def check_text(text: str, name: str, before: str | None) -> None:
    """Raise `ChangeRefused` for what is wrong with the text and was not wrong before."""
    known = problems_of(before, name) if before is not None else {}
    for problem, hint in problems_of(text, name).items():
        if problem not in known:
            raise ChangeRefused(f"not kept: {problem}", hint=hint)


def replaced(text: str, old: str, new: str, *, replace_all: bool) -> str:
    """`text` with `new` for the one place where `old` stands (or all of them). When it stands
    nowhere, whole lines that differ only in spaces, and in comments the agent was not shown, are
    taken, if there is one such place."""
    if not old.strip():
        raise ChangeRefused("old_string is empty", hint="copy the text to replace from the skill")
    if old == new:
        raise ChangeRefused("old_string and new_string are the same")
    count = text.count(old)
    if count > 1 and not replace_all:
        raise _ambiguous(count)
    if count:
        return text.replace(old, new)
    lines = text.splitlines(keepends=True)
    seen, wanted = _seen(lines), list(_seen(_lines(old)).values())
    numbers, keys, size = list(seen), list(seen.values()), len(wanted)
    places = [
        numbers[at : at + size]
        for at in range(len(keys) - size + 1)
        if wanted and keys[at : at + size] == wanted
    ]
    if not places:
        raise ChangeRefused(
            "old_string is not in it", hint="look with skill_view and copy the text exactly"
        )
    if len(places) > 1:
        raise _ambiguous(len(places))
    end = "\r\n" if "\r\n" in text else "\n"
    put = [f"{each}{end}" for each in _lines(new)] if new else []
    start, stop = places[0][0], places[0][-1] + 1
    if put and stop == len(lines) and not text.endswith("\n"):
        put[-1] = put[-1].removesuffix(end)
    return "".join((*lines[:start], *put, *lines[stop:]))


def _ambiguous(count: int) -> ChangeRefused:
    return ChangeRefused(
        f"old_string is in it {count} times",
        hint="add lines around it that only the right place has, or set replace_all",
    )


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def _seen(lines: Sequence[str]) -> dict[int, str]:
    """The lines that the agent is shown, bare, by their numbers."""
    hidden = comment_lines(lines)
    return {number: _bare(line) for number, line in enumerate(lines) if number not in hidden}


def _bare(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()
