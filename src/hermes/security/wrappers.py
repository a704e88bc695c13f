"""Programs that start other programs, and text that is itself a command line."""

import itertools
import re
from collections.abc import Iterator

import msgspec

from hermes.security.shell_syntax import (
    UNKNOWN,
    Invocation,
    Parsed,
    parse,
    without_heredocs,
)

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh"})
DEEPEST = 6
"""Levels of commands inside commands that are followed."""


class Wrapper(msgspec.Struct, frozen=True):
    """How a program names the one it starts."""

    takes_value: str = ""
    """Short options followed by a value of their own."""
    operands: int = 0
    """Words of its own before the command: the duration of `timeout`, the folder of `chroot`."""
    long_values: tuple[str, ...] = ()


WRAPPERS = {
    "sudo": Wrapper("ughpCTrtDRU", long_values=("--user", "--group", "--chdir", "--prompt")),
    "doas": Wrapper("uC"),
    "pkexec": Wrapper(long_values=("--user",)),
    "env": Wrapper("uC", long_values=("--unset", "--chdir")),
    "nice": Wrapper("n"),
    "ionice": Wrapper("cnp"),
    "chrt": Wrapper("TPD", 1),
    "taskset": Wrapper("", 1),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "time": Wrapper("fo"),
    "timeout": Wrapper("sk", 1, ("--signal", "--kill-after")),
    "stdbuf": Wrapper("ioe"),
    "unbuffer": Wrapper(),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "coproc": Wrapper(),
    "watch": Wrapper("n"),
    "xargs": Wrapper("InPLdEsa", long_values=("--max-args", "--max-procs", "--delimiter")),
    "parallel": Wrapper("jNn"),
    "strace": Wrapper("oepsSEu"),
    "ltrace": Wrapper("oepsn"),
    "chroot": Wrapper("", 1),
    "unshare": Wrapper("SG"),
    "nsenter": Wrapper("tSG"),
    "flock": Wrapper("wE", 1),
    "setpriv": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "catchsegv": Wrapper(),
    "ssh": Wrapper("bcDEeFIiJLlmOopQRSWw", 1),
    "caffeinate": Wrapper("tw"),
}

SUBCOMMAND_WRAPPERS = {
    ("docker", "exec"): Wrapper("uwe", 1),
    ("podman", "exec"): Wrapper("uwe", 1),
    ("docker", "run"): Wrapper("uwevpl", 1, ("--name", "--network", "--volume", "--entrypoint")),
    ("podman", "run"): Wrapper("uwevpl", 1, ("--name", "--network", "--volume", "--entrypoint")),
    ("uv", "run"): Wrapper("p", long_values=("--with", "--python", "--project")),
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("npm", "exec"): Wrapper(),
    ("bundle", "exec"): Wrapper(),
}

TEXT_OPTIONS = {"su": "c", "runuser": "c", "script": "c", "flock": "c", "env": "S", "sg": "c"}
"""Short options whose value is a command line."""


def unfold(command: str, depth: int = 0, folder: str = "") -> Parsed:
    """Every program the command would start, also behind wrappers and inside text."""
    parsed = parse(command, folder=folder)
    broken = parsed.broken
    invocations = list(parsed.invocations)
    plain = without_heredocs(command)
    if plain is not None:
        invocations += parse(plain, folder=folder).invocations
    result: list[Invocation] = []
    for invocation in invocations:
        for inner in _chain(invocation):
            result.append(inner)
            if depth >= DEEPEST:
                return Parsed(tuple(result), broken=True)
            for text in command_texts(inner):
                deeper = unfold(text, depth + 1, inner.folder)
                broken = broken or deeper.broken
                result += [_behind(found, inner) for found in deeper.invocations]
    return Parsed(tuple(result), broken)


def _behind(found: Invocation, outer: Invocation) -> Invocation:
    return msgspec.structs.replace(found, via=(*outer.via, outer.name, *found.via))


def _chain(invocation: Invocation) -> Iterator[Invocation]:
    """The invocation, and the ones its wrappers start."""
    yield invocation
    for words in _wrapped(invocation):
        if words:
            inner = msgspec.structs.replace(
                invocation, words=tuple(words), via=(*invocation.via, invocation.name)
            )
            yield from _chain(inner)


def _wrapped(invocation: Invocation) -> Iterator[list[str]]:
    name, arguments = invocation.name, list(invocation.arguments)
    if name == "find" or name == "fd":
        yield from _find_actions(arguments)
    elif name in WRAPPERS:
        yield _after_options(arguments, WRAPPERS[name])
    elif arguments and (name, arguments[0]) in SUBCOMMAND_WRAPPERS:
        yield _after_options(arguments[1:], SUBCOMMAND_WRAPPERS[name, arguments[0]])
    elif name == "kubectl" and "--" in arguments:
        yield arguments[arguments.index("--") + 1 :]


def _after_options(arguments: list[str], wrapper: Wrapper) -> list[str]:
    """What is left when the wrapper's own options and operands are taken away."""
    position, operands = 0, wrapper.operands
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            position += 1
            break
        if word.startswith("--"):
            position += 2 if word in wrapper.long_values else 1
        elif word.startswith("-") and len(word) > 1:
            position += 2 if word[-1] in wrapper.takes_value and len(word) == 2 else 1
        elif re.match(r"\w+=", word):
            position += 1
        elif operands:
            position, operands = position + 1, operands - 1
        else:
            break
    return arguments[position + operands :]


def _find_actions(arguments: list[str]) -> Iterator[list[str]]:
    starts = [
        i for i, word in enumerate(arguments) if re.fullmatch(r"-(exec|ok)(dir)?|-[xX]", word)
    ]
    for start in starts:
        rest = arguments[start + 1 :]
        ends = [i for i, word in enumerate(rest) if word in (";", "\\;", "+")]
        yield rest[: ends[0]] if ends else rest


def command_texts(invocation: Invocation) -> Iterator[str]:
    """Words and input of this program that a shell would run as a command line."""
    name, arguments = invocation.name, invocation.arguments
    if name in SHELLS:
        text = shell_text(invocation)
        if text is not None:
            yield text
        elif reads_commands(invocation):
            yield from _piped_texts(invocation)
    elif name == "eval":
        yield " ".join(arguments)
    elif name == "trap" and arguments:
        yield arguments[0]
    elif name == "alias":
        yield from (word.partition("=")[2] for word in arguments if "=" in word)
    elif name in ("watch", "ssh", "parallel"):
        yield from (word for word in arguments if re.search(r"\s", word))
    elif name == "git":
        yield from (word.partition("=!")[2] for word in arguments if "=!" in word)
    elif name in TEXT_OPTIONS:
        yield from option_values(invocation, TEXT_OPTIONS[name])


def shell_text(invocation: Invocation) -> str | None:
    """The text after `-c`, also in a bundle such as `-lc`."""
    arguments = invocation.arguments
    for position, word in enumerate(arguments):
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            rest = [text for text in arguments[position + 1 :] if not text.startswith("-")]
            return rest[0] if rest else ""
        if not word.startswith(("-", "+")):
            return None
    return None


def reads_commands(invocation: Invocation) -> bool:
    """Whether a shell or interpreter takes its program from standard input."""
    if any(word == "-s" or word == "-" or word == "/dev/stdin" for word in invocation.arguments):
        return True
    return not [word for word in invocation.arguments if not word.startswith(("-", "+"))]


def _piped_texts(invocation: Invocation) -> Iterator[str]:
    if invocation.stdin:
        yield invocation.stdin
    for source in invocation.upstream:
        if source.name in ("echo", "printf"):
            yield " ".join(word for word in source.arguments if not word.startswith("-"))
        elif source.name == "cat" and source.stdin:
            yield source.stdin


def option_values(invocation: Invocation, letter: str) -> Iterator[str]:
    """Values of a short option, apart (`-c text`) or attached (`-ctext`)."""
    words = invocation.arguments
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=UNKNOWN):
        if word == f"-{letter}":
            yield value
        elif word.startswith(f"-{letter}") and len(word) > 2:
            yield word[2:]
