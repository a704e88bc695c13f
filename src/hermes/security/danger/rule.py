"""What a rule is, and the small tests most rules are made of."""

import re
from collections.abc import Callable

import msgspec

from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation

Test = Callable[[Invocation, Scene], bool]


class Rule(msgspec.Struct, frozen=True):
    kind: str
    """The class; consent is given to it, and it is what `command_allowlist` holds."""
    reason: str
    names: str
    """Names of programs, with blanks between them; "" fits every program."""
    test: Test
    refused: bool = False
    """Nobody can consent to it."""


class TextRule(msgspec.Struct, frozen=True):
    """A rule on the text of the command itself."""

    kind: str
    reason: str
    pattern: re.Pattern[str]
    refused: bool = False


def always(_invocation: Invocation, _scene: Scene) -> bool:
    return True


def says(pattern: str) -> Test:
    """The arguments, joined by blanks, contain `pattern`."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda invocation, _: compiled.search(invocation.text) is not None


def says_exactly(pattern: str) -> Test:
    """As `says`, where small and capital letters differ."""
    compiled = re.compile(pattern)
    return lambda invocation, _: compiled.search(invocation.text) is not None


def verb(words: str, pattern: str = "") -> Test:
    """One of `words` stands alone among the arguments, or `pattern` is in them."""
    alone = rf"(?:^|\s)(?:{'|'.join(words.split())})(?=[\s=:]|\Z)"
    compiled = re.compile(f"{alone}|{pattern}" if pattern else alone, re.IGNORECASE)
    return lambda invocation, _: compiled.search(invocation.plain) is not None


def option(*wanted: str) -> Test:
    """One of the options is given; long ones may be shortened."""
    return lambda invocation, _: has_option(invocation, *wanted)


def both(first: Test, second: Test) -> Test:
    return lambda invocation, scene: first(invocation, scene) and second(invocation, scene)


def but_not(first: Test, second: Test) -> Test:
    return lambda invocation, scene: first(invocation, scene) and not second(invocation, scene)


def either(first: Test, second: Test) -> Test:
    return lambda invocation, scene: first(invocation, scene) or second(invocation, scene)


def has_operands(invocation: Invocation, _scene: Scene) -> bool:
    return bool(operands(invocation))


def has_option(invocation: Invocation, *wanted: str) -> bool:
    found = options(invocation)
    if not found.isdisjoint(wanted):
        return True
    long = [name for name in wanted if name.startswith("--")]
    return any(
        word.startswith("--") and len(word) > 3 and any(name.startswith(word) for name in long)
        for word in found
    )


def options(invocation: Invocation) -> set[str]:
    """Short options as single letters, long ones with their dashes and without a value."""
    found: set[str] = set()
    for word in map(without_unknown, invocation.arguments):
        if word == "--":
            break
        if word.startswith("--"):
            found.add(word.partition("=")[0])
        elif word.startswith("-"):
            found |= set(word[1:])
    return found


def operands(invocation: Invocation) -> list[str]:
    """The arguments that are not options."""
    words = list(invocation.arguments)
    if "--" in words:
        end = words.index("--")
        return [word for word in words[:end] if not _is_option(word)] + words[end + 1 :]
    return [word for word in words if not _is_option(word)]


def _is_option(word: str) -> bool:
    return word.startswith(("-", f"{UNKNOWN}-")) and word != "-"


def without_unknown(word: str) -> str:
    """`-r$x` as `-r`: a variable that is not set adds nothing."""
    return word.replace(UNKNOWN, "")
