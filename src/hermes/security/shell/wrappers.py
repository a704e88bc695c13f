"""Every program a command line would start, also behind wrappers and inside text."""

import itertools
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec

from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import (
    MOST_PROGRAMS,
    SPLIT,
    UNKNOWN,
    CommandTooComplex,
    Invocation,
    ParsedCommand,
    program_name,
)
from hermes.security.shell.reader import parse_command
from hermes.security.tables import Launcher, program_tables, split_values, word_list

# Programs that start other programs.

SHELLS = word_list("shells")
LAUNCHERS = {
    **dict.fromkeys(program_tables().words["plain_launchers"].split(), Launcher()),
    **{
        f"{name} {verb}": Launcher()
        for name, verbs in program_tables().plain_subcommands.items()
        for verb in verbs.split()
    },
    **program_tables().launchers,
}
LAUNCHERS |= {
    f"{engine} {verb}": LAUNCHERS["docker exec"]
    for engine in ("docker", "podman", "nerdctl", "docker-compose")
    for verb in ("exec", "run")
}
"""By name, or by name and subcommand."""
AFTER_DASHES, TEXT_WORDS = word_list("after_dashes"), word_list("text_words")
COMMAND_OPTIONS = split_values(program_tables().command_options)
TEXT_OPTIONS = {**split_values(program_tables().text_options), **COMMAND_OPTIONS}

# Commands among the words of unknown programs: wrappers that are in no list.

SHARP = word_list("dangerous_names")
_ALONE = frozenset({"redis-cli", "dropdb", "busybox", "xargs", "dd", "systemctl"})
"""These need no option to do harm."""
HOLDS_TEXT = word_list("holds_text")
_TAKES_TEXT = word_list("takes_text")
_COMMAND_TEXT = re.compile(
    rf"\s*(?:sudo\s+)?(?:[\w./-]*/)?(?:{'|'.join(map(re.escape, sorted(SHARP)))})\s+-\w"
)
_RUN_WORDS = frozenset({"run", "exec", "shell", "ssh", "sh", "cmd", "command", "invoke", "enter"})
_OPTION_VALUE = re.compile(r"--?[\w-]+=")
MOST_WORDS = 24  #: Number of words that are checked.


def guessed_words(invocation: Invocation) -> list[str]:
    """Return the words from a dangerous name on, if an option follows it: `tool enter box rm -rf
    x`."""
    if invocation.name in HOLDS_TEXT:
        return []
    words = invocation.arguments[:MOST_WORDS]
    for position, word in enumerate(words):
        name = program_name(word)
        if name in _TAKES_TEXT:
            return []
        if name not in SHARP:
            continue
        after = words[position + 1 : position + 2]
        if after and (after[0].startswith("-") or name in _ALONE):
            return list(invocation.arguments[position:])
    return []


def guessed_texts(invocation: Invocation) -> Iterator[str]:
    """Yield option values, or words after `run` and similar, that are a command line of a
    dangerous program: `tool --script='rm -rf x'`. Programs of the project are excluded."""
    if invocation.name in HOLDS_TEXT or "/" in invocation.words[0] or "." in invocation.name:
        return
    words = invocation.arguments[:MOST_WORDS]
    for before, word in pairwise(("", *words)):
        if " " not in word:
            continue
        text = _OPTION_VALUE.sub("", word, count=1) if word.startswith("-") else word
        valued = text != word or before.startswith("-") or before in _RUN_WORDS
        if valued and _COMMAND_TEXT.match(text):
            yield text


SCRIPTED = frozenset({"python", "pypy", "py", "php", "ruby", "node"})
"""Interpreters whose first operand is the script they run."""
DEEPEST = 6  #: Maximum nesting of commands inside commands.

COMMAND_VARIABLES = re.compile(
    r"(GIT_)?(EDITOR|PAGER|SSH|SSH_COMMAND|SEQUENCE_EDITOR|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND)"
    r"|VISUAL|MANPAGER|LESSOPEN|LESSCLOSE|RSYNC_RSH|SUDO_ASKPASS|SSH_ASKPASS|BROWSER|TAR_OPTIONS"
    r"|CC|CXX|LD|PYTHON3?|NODE|MAKE|PIP|PROMPT_COMMAND|PS[0-4]|CVS_RSH|TERMINAL|FCEDIT|PSQL_PAGER"
)
"""Variables whose value other programs run."""

_GIT_TEXT_OPTIONS = (
    "--upload-pack", "--receive-pack", "--extcmd", "--open-files-in-pager", "--sendmail-cmd",
    "--to-cmd", "--cc-cmd", "--header-cmd",
)  # fmt: skip
_GIT_VERB_OPTIONS = {
    "grep": "-O",
    "difftool": "-x",
    "clone": "-u",
    "fetch": "-u",
    "ls-remote": "-u",
}
"""Short options whose value is a command with one subcommand only."""
_COMPILERS = frozenset({"gcc", "g++", "cc", "c++"})
"""These separate the words of a command by commas."""
SSH_COMMAND = re.compile(r"^\S*command[= ]\s*(.+)", re.IGNORECASE | re.DOTALL)
TMUX_RUNS = re.compile(
    r"\b(new|send|split|run|if-shell|respawn|popup|neww|display-popup|pipe-pane)"
)

GIT_COMMANDS = re.compile(
    r"(alias\.[\w-]+|core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager\.\w+"
    r"|credential(?:\.\S+)?\.helper|diff\.external|(?:diff|merge)tool\.\S+\.cmd|sequence\.editor"
    r"|filter\.\S+\.(?:clean|smudge|process)|gpg\.(?:\w+\.)?program|diff\.\S+\.(?:textconv|command)"
    r"|merge\.\S+\.driver|interactive\.difffilter|uploadpack\.packobjectshook|trailer\.\S+\.c(?:omman)?d"
    r"|remote\.\S+\.(?:uploadpack|receivepack|vcs)|sendemail\.\S*(?:cmd|smtpserver)|core\.attributesfile"
    r"|(?:browser|man|guitool)\.\S+\.cmd|submodule\.\S+\.update|include(?:if\.\S+)?\.path"
    r"|init\.templatedir|protocol\.ext\.allow|core\.alternaterefscommand)(?:=|\s+)(.*)",
    re.IGNORECASE | re.DOTALL,
)
"""Settings of git whose value is run."""


def unfold_command(command: str, known: Mapping[str, str] | None = None) -> ParsedCommand:
    """Parse a command line. `known` are variables with their values. Raises `CommandTooComplex`."""
    return _Unfolder().read(command, 0, Invocation((), known=known or {}))


def unfold_invocation(invocation: Invocation) -> ParsedCommand:
    """Return one program with everything it would start."""
    return _Unfolder().follow(ParsedCommand((invocation,)), 0)


class _Unfolder:
    def __init__(self) -> None:
        self._count = 0

    def read(self, command: str, depth: int, outer: Invocation) -> ParsedCommand:
        return self.follow(parse_command(command, outer.known, outer.folder), depth)

    def follow(self, parsed: ParsedCommand, depth: int) -> ParsedCommand:
        broken, bomb = parsed.broken, parsed.bomb
        result: list[Invocation] = []
        for invocation in parsed.invocations:
            for inner in chain(invocation):
                result.append(inner)
                self._count += 1
                if self._count > MOST_PROGRAMS:
                    raise CommandTooComplex
                for text in filter(None, command_texts(inner)):
                    if depth >= DEEPEST:
                        return ParsedCommand(tuple(result), broken=True, bomb=bomb)
                    deeper = self.read(text, depth + 1, _with_parameters(inner))
                    broken, bomb = broken or deeper.broken, bomb or deeper.bomb
                    result += [_with_outer(found, inner) for found in deeper.invocations]
        return ParsedCommand(tuple(result), broken, bomb)


def _with_parameters(outer: Invocation) -> Invocation:
    """`sh -c TEXT name a b`: the text sees `$0`, `$1`, `$2`."""
    text = shell_text(outer) if outer.name in SHELLS else None
    if text is None or text not in outer.arguments:
        return outer
    words = outer.arguments[outer.arguments.index(text) + 1 :]
    numbered = {str(number): word for number, word in enumerate(words[:10])}
    joined = SPLIT.join(words[1:])
    parameters = {**numbered, "@": joined, "*": joined} if words else {}
    return msgspec.structs.replace(outer, known={**outer.known, **parameters})


def _with_outer(found: Invocation, outer: Invocation) -> Invocation:
    return msgspec.structs.replace(
        found,
        via=(*outer.via, outer.name, *found.via),
        background=found.background or outer.background,
    )


def chain(invocation: Invocation) -> Iterator[Invocation]:
    """Yield the invocation, and those its wrappers start, from the outside in."""
    waiting = [invocation]
    for _ in range(2 * MOST_PROGRAMS):
        if not waiting:
            return
        current = waiting.pop(0)
        yield current
        if len(current.via) > 60:
            raise CommandTooComplex
        for words in _wrapped_commands(current):
            via = (*current.via, current.name)
            waiting.append(msgspec.structs.replace(current, words=tuple(words), via=via))


def _wrapped_commands(invocation: Invocation) -> list[list[str]]:
    """Return what it starts if known, else what it seems to start."""
    found = [words for words in _known_targets(invocation) if words]
    guess = guessed_words(invocation)
    if guess and not any(words[-len(guess) :] == guess for words in found):
        found.append(guess)
    return found


def _known_targets(invocation: Invocation) -> Iterator[list[str]]:
    name, arguments = invocation.name, list(invocation.arguments)
    if name in ("find", "fd", "fdfind", "bfs"):
        yield from _find_actions(arguments)
        return
    if name == "command" and arguments[:1] in (["-v"], ["-V"]):
        return  # only prints the location
    if is_loader(name):
        name = "ld.so"
    elif name == "coreutils":
        yield from _multi_call(arguments)
        return
    if name in LAUNCHERS:
        words = _after_options(arguments, LAUNCHERS[name])
        if words and name in TEXT_WORDS and re.search(r"\s", words[0]):
            return  # a command line, which `command_texts` gives
        fed = name == "xargs" or (name == "parallel" and bool(invocation.upstream))
        yield _with_xargs_input(words, invocation) if fed else words
    elif interpreter_name(name) in SCRIPTED:
        yield _script_words(arguments)
    elif arguments:
        yield from _by_subcommand(name, arguments)
    if name in AFTER_DASHES and "--" in arguments:
        yield arguments[arguments.index("--") + 1 :]


def _multi_call(arguments: list[str]) -> Iterator[list[str]]:
    """`coreutils --coreutils-prog=rm -r x`, or a name as its first word."""
    first, *rest = arguments or [""]
    option, _, name = first.partition("=")
    if option == "--coreutils-prog-shebang":
        yield [name, *rest[1:]]
    elif name:
        yield [name, *rest]
    else:
        yield arguments


def _script_words(arguments: list[str]) -> list[str]:
    """`python manage.py flush` and `python -m pip …`: the script as a program of its own."""
    skip = False
    for position, word in enumerate(arguments):
        if skip:
            skip = False
        elif word == "-m":
            return arguments[position + 1 :]
        elif not word.startswith("-"):
            return arguments[position:]
        elif re.fullmatch(r"-[a-zA-Z]*[cepE]|-r|--(eval|print)(=.*)?", word, re.DOTALL):
            break
        else:
            skip = word in ("-X", "-W", "-d", "-I", "--import", "--require")
    return []


def _with_xargs_input(words: list[str], invocation: Invocation) -> list[str]:
    """Add what xargs reads from its input, if known."""
    given = (known_input(invocation) or "").split()[:50]
    marks = [*option_values(invocation.arguments, ("-I", "-J", "--replace")), "{}"]
    if any(mark and mark in word for mark in marks for word in words):
        text = given[0] if given else UNKNOWN
        for mark in filter(None, marks):
            words = [word.replace(mark, text) for word in words]
        return words
    return [*words, *given] if words else words


def _flatpak(arguments: list[str]) -> list[str]:
    """`flatpak run --command=sh app …`: another program of the package."""
    command = next(option_values(tuple(arguments), ("--command",)), "")
    rest = [word for word in arguments[1:] if not word.startswith("--")]
    return [command, *rest[1:]] if command else []


def _by_subcommand(name: str, arguments: list[str]) -> Iterator[list[str]]:
    """`docker exec`, also with options between the two: `docker --context x exec`."""
    if name in ("docker", "podman") and "compose" in arguments[:4]:
        name, arguments = "docker-compose", arguments[arguments.index("compose") + 1 :]
    if name == "flatpak" and arguments[0] == "run":
        yield _flatpak(arguments)
    for position, word in enumerate(arguments[:8]):
        launcher = LAUNCHERS.get(f"{name} {word}")
        if launcher is not None:
            words = _after_options(arguments[position + 1 :], launcher)
            if name in ("yarn", "npm", "pnpm") and "--" in words[:2]:
                words.remove("--")  # the program does not get it
            yield words
            return


def _after_options(arguments: list[str], launcher: Launcher) -> list[str]:
    """Return what is left after the launcher's own options and operands."""
    position, operands = 0, launcher.operands
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            position += 1
            break
        if word == "-" and not operands:
            position += 1  # `env - program`
        elif word.startswith("--") or word in launcher.long_values.split():
            position += 1 + _long_takes_value(word, launcher)
        elif word.startswith("-") and len(word) > 1:
            position += 1 + _short_takes_value(word, launcher)
        elif re.match(r"\w+=", word):
            position += 1
        elif operands:
            position, operands = position + 1, operands - 1
        else:
            break
    return arguments[position + operands :]


def _long_takes_value(word: str, launcher: Launcher) -> bool:
    if "=" in word:
        return False
    flags = launcher.flags.split()
    return word in launcher.long_values.split() or bool(flags and word not in flags)


def _short_takes_value(word: str, launcher: Launcher) -> bool:
    """`-u root` and `-itu root`, but not `-uroot`."""
    for position, letter in enumerate(word[1:], 2):
        if letter in launcher.takes_value:
            return position == len(word)
    return False


def _find_actions(arguments: list[str]) -> Iterator[list[str]]:
    starts = [
        i
        for i, word in enumerate(arguments)
        if re.fullmatch(r"-(exec|ok)(dir)?|-[xX]|--exec(-batch)?", word)
    ]
    where = next((word for word in arguments[:3] if word[:1] in ("/", "~")), "").rstrip("/")
    for start in starts:
        rest = arguments[start + 1 :]
        ends = [i for i, word in enumerate(rest) if word in (";", "\\;", "+")]
        action = rest[: ends[0]] if ends else rest
        yield [f"{where}/{word}" if where and word == "{}" else word for word in action]


def command_texts(invocation: Invocation) -> Iterator[str]:
    """Yield words and input of this program that a shell would run as a command line."""
    name, arguments = invocation.name, invocation.arguments
    for variable, value in invocation.assignments:
        if COMMAND_VARIABLES.fullmatch(variable) and (
            " " in value or "/" in value or "$(" in value
        ):
            yield value.lstrip("!")
    if name in SHELLS:
        yield from _shell_texts(invocation)
    elif name == "git":
        yield from _git_texts(invocation)
    elif _runs_input(invocation):
        yield known_input(invocation) or ""
    if name in TEXT_WORDS and (name != "tmux" or TMUX_RUNS.search(invocation.text)):
        yield from (word for word in arguments if re.search(r"\s", word))
    if name in TEXT_OPTIONS:
        values = option_values(arguments, TEXT_OPTIONS[name])
        yield from (value.replace(",", " ") if name in _COMPILERS else value for value in values)
    elif arguments and not (
        name in SHELLS or name in LAUNCHERS or interpreter_name(name) in SCRIPTED
    ):
        yield from guessed_texts(invocation)
    yield from _other_texts(name, arguments)


def _runs_input(invocation: Invocation) -> bool:
    """Return whether the input of this program is, or contains, command lines."""
    name, words = invocation.name, invocation.arguments
    if name in ("source", "."):
        return words[:1] in (("/dev/stdin",), ("/dev/fd/0",))
    if name == "ssh":
        return not _after_options(list(words), LAUNCHERS["ssh"])
    return name in ("at", "batch", "crontab", "make")


def _other_texts(name: str, arguments: tuple[str, ...]) -> Iterator[str]:
    for word in arguments:
        if name == "tar" and "exec=" in word:
            yield word.partition("exec=")[2]
        elif _is_command_setting(name, word.partition("=")[0]):
            yield word.partition("=")[2]
        elif name in ("ssh", "scp", "sftp", "rsync", "autossh"):
            yield from SSH_COMMAND.findall(word)
    if name in ("mapfile", "readarray", "bind", "complete", "compgen"):
        for text in option_values(arguments, ("-C", "-x", "-W")):
            command = re.sub(r"^\"?[^\":]*\"?:\s*", "", text) if name == "bind" else text
            yield command if name != "compgen" or "$(" in command else ""


def _is_command_setting(program: str, setting: str) -> bool:
    """`npm --scripts.test=…`, `make CC=…`: a setting whose value is run."""
    if program in ("npm", "pnpm", "yarn"):
        return setting.startswith("scripts.")
    return program == "make" and COMMAND_VARIABLES.fullmatch(setting) is not None


def _git_texts(invocation: Invocation) -> Iterator[str]:
    words = invocation.arguments
    for key, value in git_settings(words):
        text = value.lstrip("!")
        yield text if not key.startswith("alias.") or value.startswith("!") else f"git {text}"
    yield from git_option_texts(words)
    if "rebase" in words:
        yield from option_values(words, ("-x", "--exec"))
    if "foreach" in words:
        yield " ".join(words[words.index("foreach") + 1 :]).removeprefix("--recursive ")
    yield from (word.partition("::")[2].replace("%", " ") for word in words if word[:5] == "ext::")


def git_settings(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield settings among the words of git whose value it runs or reads as settings."""
    for word, after in itertools.zip_longest(words, words[1:], fillvalue=""):
        found = GIT_COMMANDS.match(f"{word} {after}" if "=" not in word else word)
        if found and found[2] and not found[2].startswith("-"):
            yield found[1].lower(), found[2]


def git_option_texts(words: tuple[str, ...]) -> Iterator[str]:
    """Yield values of options of git that are commands."""
    yield from option_values(words, _GIT_TEXT_OPTIONS)
    for verb, option in _GIT_VERB_OPTIONS.items():
        if verb in words:
            found = option_values(words, (option,))
            # The files that were found follow the command.
            yield from (f"{text} *" for text in found) if verb == "grep" else found


def _shell_texts(invocation: Invocation) -> Iterator[str]:
    text = shell_text(invocation)
    if text is not None:
        yield text
    elif reads_commands(invocation):
        yield known_input(invocation) or ""


def shell_text(invocation: Invocation) -> str | None:
    """Return the text after `-c`, also in a bundle such as `-lc`."""
    arguments = invocation.arguments
    skip = False
    for position, word in enumerate(arguments):
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*|--command|--commands", word):
            rest = [text for text in arguments[position + 1 :] if not text.startswith("-")]
            return rest[0] if rest else ""
        if re.fullmatch(r"-[a-zA-Z]*c=.*|--commands?=.*", word, re.DOTALL):
            return word.partition("=")[2]
        if skip or word in ("--rcfile", "--init-file") or re.fullmatch(r"[-+]\w*[oO]", word):
            skip = not skip
        elif not word.startswith(("-", "+")):
            return None
    return None


def reads_commands(invocation: Invocation) -> bool:
    """Return whether a shell or interpreter reads its program from standard input."""
    words = invocation.arguments
    if any(word in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") for word in words):
        return True
    if any(re.fullmatch(r"-[a-zA-Z]*s[a-zA-Z]*", word) for word in words):
        return invocation.name in SHELLS
    return not [word for word in words if not word.startswith(("-", "+"))]


def option_values(words: tuple[str, ...], names: tuple[str, ...]) -> Iterator[str]:
    """Yield values of options: separate (`-c text`), attached, bundled (`-qc text`) or with `=`."""
    for word, after in itertools.zip_longest(words, words[1:], fillvalue=""):
        for name in names:
            if word == name:
                yield after
            elif word.startswith(f"{name}="):
                yield word[len(name) + 1 :]
            elif len(name) == 2 and name[0] == "-" and word[0:1] == "-" and word[1:2] != "-":
                if word.startswith(name) and len(word) > 2:
                    yield word[2:]
                elif word.endswith(name[1]) and word[1:].isalpha():
                    yield after


def interpreter_name(name: str) -> str:
    """Return `python3.11` as `python`."""
    return program_name(name).rstrip("-.0123456789")


def is_loader(name: str) -> bool:
    """Return whether it is the dynamic loader, which runs its first operand."""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))
