"""Code given as text to an interpreter: where it is, and what it would do.

The readers of `python_code` and `script_code` translate code into the commands that have the same
effect, and the rules judge those. What a reader cannot follow needs approval for each call.
"""

import posixpath
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from hermes.security.danger.context import ShellContext, has_option, operands
from hermes.security.shell.expansion import known_input
from hermes.security.shell.model import UNKNOWN, Invocation, ShellRedirect, program_name
from hermes.security.shell.wrappers import SHELLS, interpreter_name, reads_commands
from hermes.security.tables import program_tables, split_values, word_list

INLINE = program_tables().code_letters
INLINE_WORDS = word_list("inline_words")
TAKES_VALUE = split_values(program_tables().value_options)

PYTHON_CONSOLES = frozenset({
    "manage.py", "django-admin", "flask", "odoo", "odoo-bin", "scrapy", "superset", "ckan",
})  # fmt: skip
PYTHONS = frozenset({"python", "pypy", "ipython", "micropython", "bpython", "ptpython"})
AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
CONSOLES = {
    **dict.fromkeys(("rails", "rake"), ("runner", "r", "console", "c")),
    **dict.fromkeys(PYTHON_CONSOLES, ("shell", "shell_plus", "konch")),
    "artisan": ("tinker",),
    **dict.fromkeys(("drush", "wp"), ("eval", "ev", "php-eval", "shell")),
}
"""Consoles of frameworks, with the subcommands that take code."""

_CHECKERS = {"php": ("-l",), "ruby": ("-c",), "node": ("-c", "--check")}
"""Options with which an interpreter only checks the syntax."""
MAX_CODE = 20_000  #: Longer code is not read but needs approval.
MAX_COMMANDS = 80  #: Code with more effects is not read to its end but needs approval.
NAME = "*"  #: Stands for a file name or a number: it contains no folder.
TEMPORARY = "/tmp/mktemp"  #: Stands for a new temporary file or folder.
_PERL_VALUES = "MmIxCDVFl0i"  #: Options of perl whose value is attached.
_SAFE_FEEDERS = frozenset({"date", "wc", "nproc", "pwd", "id", "uname", "stat", "du", "seq"})
"""Programs whose output is a number or a name, not code."""
_SECRET_TEXT = re.compile(
    r"(?:\.ssh/|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|\.netrc\b|\.gnupg/"
    r"|\.git-credentials|\.pgpass\b|\.kube/config|\.docker/config\.json|/etc/g?shadow"
    r"|\.hermes/)[\w./-]*"
)
LOCAL_HOST = re.compile(r"(?:\A|//|@)(?:localhost|127\.\d|0\.0\.0\.0|\[::1\])")
REMOTE_DATABASE = re.compile(
    r"\w://(?:[^/@\s]*@)?(?!localhost|127\.|\[::1\]|0\.0\.0\.0|/|\.)[\w-]+\.[\w.-]+|(?:^|[/@._-])prod(?:uction)?\b"
    r"|\bhost=(?!localhost|127\.)[\w-]+\.|\A[\w-]+(?:\.[\w-]+)*\.(?:internal|com|net|io|org|cloud|dev)\Z"
)
"""The address of a database of another machine."""
_NEAR = re.compile(
    r"(?:\w+://)?(?:localhost|127\.|0\.0\.0\.0|\[::1\]|host\.docker\.internal|testserver|[\w-]+\.(?:local|test)\b)"
    r"|https?://[\w-]+(?::[\d?*]+)?(?:/|\Z)|https?://(?:httpbin\.org|postman-echo\.com|jsonplaceholder\.)|/(?!/)"
)
"""Servers of this machine or of its containers, services that only echo, and paths of them."""
_PATH_BEFORE = re.compile(r"[\w./~-]{0,200}\Z")
_WHOLE_GAP = re.compile(rf"[{UNKNOWN}\s]*")


@cache
def code_tables() -> dict[str, dict[str, str]]:
    """Return languages.toml: the functions with an effect."""
    data = Path(__file__).with_name("languages.toml").read_bytes()
    return msgspec.toml.decode(data, type=dict[str, dict[str, str]])


@cache
def _verb_pattern(name: str) -> re.Pattern[str]:
    verbs = "|".join(code_tables()["verbs"][name].split())
    if name == "reading":
        return re.compile(rf"(?:{verbs})(?=_|[A-Z]|\Z)")
    if name == "changing":
        partial = "|".join(code_tables()["verbs"]["partial"].split())
        verbs = f"{verbs}|(?:{partial})(?=_|[A-Z])"
    upper = "|".join(verb.capitalize() for verb in code_tables()["verbs"]["changing"].split())
    return re.compile(
        rf"(?:\A|_)(?:{verbs})(?=_|[A-Z0-9]|\Z)|\A(?:{upper})[A-Z]\w*Command\Z|\A(?:{verbs})\Z"
    )


def changes(function: str) -> bool:
    """Return whether the name of a function of a service says that it changes something."""
    last = function.rpartition(".")[2]
    return bool(_verb_pattern("changing").search(last)) and not _verb_pattern("reading").match(last)


_REVEALS = re.compile(
    r"(?:get|read|access|fetch|reveal|decrypt|show)_?\w*(?:secret|credential|password|accesskey)",
    re.IGNORECASE,
)


def reveals(function: str) -> bool:
    """Return whether the name of a function of a service says that it gives keys."""
    return bool(_REVEALS.match(function.rpartition(".")[2]))


def loses(function: str) -> bool:
    """Return whether the name of a function of a database says that it deletes something."""
    return bool(_verb_pattern("losing").search(function.rpartition(".")[2]))


def python_words(name: str) -> frozenset[str]:
    return frozenset(code_tables()["python"][name].split())


class CodeEffects:
    """What a piece of code would do, as commands, and what is said against it directly."""

    def __init__(self, invocation: Invocation, context: ShellContext) -> None:
        self.invocation, self.context = invocation, context
        self.commands: list[Invocation] = []
        self.dangers: dict[tuple[str, str], None] = {}  #: Class and reason.
        self.unreadable: dict[str, None] = {}  #: Reasons.
        self.folder = invocation.folder
        self.online = False  #: The code fetches something from the network.
        self._made: set[str] = set()

    def danger(self, reason: str, kind: str = "dangerous inline code") -> None:
        self.dangers[kind, reason] = None

    def hide(self, reason: str) -> None:
        self.unreadable[reason] = None

    def run(self, *words: str, target: str = "", operator: str = ">") -> None:
        """Add a command that has the same effect as the code; `target` is a file it writes."""
        if len(self.commands) >= MAX_COMMANDS:
            self.hide("it does too much to be read")
            return
        redirects = (ShellRedirect(operator, target),) if target else ()
        self.commands.append(
            Invocation(
                words,
                redirects,
                known=self.invocation.known,
                folder=self.folder,
                via=(*self.invocation.via, self.invocation.name),
            )
        )

    def run_words(self, words: Sequence[str]) -> None:
        """Code that starts a program with these arguments."""
        if not words or _WHOLE_GAP.fullmatch(words[0]):
            self.hide("the code starts a program that is known only when it runs")
        elif not self._starts_shell(words):
            self.run(*words)

    def run_text(self, text: str) -> None:
        """Code that has a shell run this command line."""
        if _WHOLE_GAP.fullmatch(text):
            self.hide("the code runs a command that is known only when it runs")
            return
        try:
            words = shlex.split(text)
        except ValueError:
            words = [text]
        if not words or not self._starts_shell(words):
            self.run("sh", "-c", text)

    def _starts_shell(self, words: Sequence[str]) -> bool:
        """A shell that takes commands, or a command that only tells who runs it: nothing that
        needs code around it."""
        name = program_name(words[0])
        given = [word for word in words[1:] if not word.startswith("-") or word == "-c"]
        if name in SHELLS and not given:
            self.danger("the code starts a shell")
        elif name in ("id", "whoami"):
            self.danger("the code runs commands")
        return name in SHELLS and not given

    def read(self, path: str) -> None:
        if path.replace(UNKNOWN, "").strip("/*.~"):
            self.run("cat", path)

    def write(self, path: str, text: str | None = None, *, append: bool = False) -> None:
        """Code that writes a file; `text` is its content, if known."""
        if path.startswith((TEMPORARY, "/dev/null", "/dev/std")):
            return
        known = path.lstrip("*")
        if path.startswith(UNKNOWN) or not known:
            if not path.startswith("*"):
                self.hide("the code writes a file whose name is known only when it runs")
            return
        words: tuple[str, ...] = (":", "text") if text is None else ("printf", "%s", text)
        if self.online and text is None:
            words = ("curl", "-o", path, "http://localhost/")
        self.run(*words, target=path, operator=">>" if append else ">")
        self._made.add(path)
        self.check_outside(path)

    def check_outside(self, path: str) -> None:
        folder = Invocation((), folder=self.folder)
        real = self.context.real(path, folder)
        guard = self.context.guard
        if not real or real.startswith(("/tmp/", "/var/tmp/", "/dev/")):
            return
        concern = guard.check_write(path, real)
        if concern is not None:
            self.danger("the code writes outside the workspace", "write outside the workspace")

    def delete(self, path: str, *, tree: bool = False) -> None:
        if path.startswith(TEMPORARY):
            return
        self.run("rm", *(("-r",) if tree else ()), path)
        temporary = path.startswith("/tmp/") and not tree and ".." not in path
        if not temporary and path not in self._made:
            self.danger("the code deletes folders" if tree else "the code deletes files")

    def fetch(self, *words: str) -> None:
        self.online = True
        self.run("curl", *words)

    def send(self, url: str, *options: str) -> None:
        """Code that sends data, or changes something, at an address; "" if that is unknown."""
        self.fetch(*options, url)
        if not _NEAR.match(url.replace(UNKNOWN, "?")):
            self.danger("the code sends data to another machine", "exfiltration")

    def serve(self, host: str) -> None:
        """Code that accepts connections at this address."""
        if host in ("0.0.0.0", "::"):
            self.danger("the code opens this machine from outside", "network shell")

    def change_folder(self, path: str) -> None:
        self.folder = posixpath.join(self.folder, path) if self.folder else path

    def note_secrets(self, text: str) -> None:
        """Code that names a file with keys, however it opens it."""
        for found in _SECRET_TEXT.finditer(text):
            before = _PATH_BEFORE.search(text[max(found.start() - 200, 0) : found.start()])
            path = (before[0] if before else "") + found[0]
            path = path.lstrip("/") if path.startswith("/.") else path
            self.run("cat", path if path.startswith(("/", "~")) else f"~/{path}")


def inline_texts(invocation: Invocation) -> list[str] | None:
    """Return the code on the command line or on standard input; UNKNOWN stands for what is not
    known, and None says that there is no code."""
    base = interpreter_name(invocation.name)
    if base in AWKS:
        return _awk_program(invocation)
    if base in CONSOLES:
        return _console_code(invocation)
    if base not in INLINE:
        return None
    texts, operand = _code_words(base, invocation.arguments)
    if texts:
        return texts
    if has_option(invocation, "V", "v", "--version", "--help", "h") or operand:
        return None
    if "".join(invocation.arguments[:1]) in _CHECKERS.get(base, ()):
        return None
    fed = bool(invocation.stdin or invocation.upstream or invocation.fed_by)
    if not fed or not (reads_commands(invocation) or _names_input(base, invocation)):
        return None
    text = known_input(invocation)
    return [UNKNOWN if text is None or _is_decoded(invocation) else text]


def _awk_program(invocation: Invocation) -> list[str] | None:
    if has_option(invocation, "f", "--file"):
        return None
    words = list(invocation.arguments)
    while words and words[0].startswith("-") and words[0] != "--":
        del words[: 2 if words[0] in ("-F", "-v", "--assign", "--field-separator") else 1]
    return words[:1] or None


def _console_code(invocation: Invocation) -> list[str] | None:
    """`rails runner CODE`, `manage.py shell -c CODE`, `echo CODE | artisan tinker`."""
    words = list(invocation.arguments)
    verbs = CONSOLES[interpreter_name(invocation.name)]
    position = next((i for i, word in enumerate(words[:3]) if word in verbs), None)
    if position is None:
        return None
    rest = words[position + 1 :]
    for word, after in zip(rest, (*rest[1:], ""), strict=False):
        if word in ("-c", "--command", "--execute"):
            return [after]
        if word.startswith(("--command=", "--execute=")):
            return [word.partition("=")[2]]
    if words[position] in ("runner", "r", "eval", "ev", "php-eval"):
        code = [word for word in rest if not word.startswith("-")][:1]
        return None if not code or re.fullmatch(r"[\w./-]+\.rb", code[0]) else code
    if invocation.stdin or invocation.upstream:
        text = known_input(invocation)
        return [UNKNOWN if text is None else text]
    return None


def _names_input(base: str, invocation: Invocation) -> bool:
    """`deno run -` and `bun run -`."""
    return base in ("deno", "bun") and operands(invocation)[:2] == ["run", "-"]


def _is_decoded(invocation: Invocation) -> bool:
    return not word_list("decoders").isdisjoint(source.name for source in invocation.upstream)


def _code_words(base: str, arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the code among the arguments, and whether a script file is named instead."""
    letters, taking = INLINE[base], TAKES_VALUE.get(base, ())
    python = base in PYTHONS
    texts: list[str] = []
    modules: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        attached = _after_letter(base, word, letters)
        if attached is not None:
            texts.append(attached or (words.pop(0) if words else ""))
            if python:
                break
        elif not python and word.partition("=")[0].lower() in INLINE_WORDS:
            name, found, value = word.partition("=")
            while not found and name == "eval" and words and words[0].startswith("-"):
                words.pop(0)
            texts.append(value if found else (words.pop(0) if words else ""))
        elif base == "perl" and re.match(r"-[Mm]", word):
            modules.append(word[2:] or (words.pop(0) if words else ""))
        elif word == "-m" or not word.startswith("-") or word == "-":
            return (_with_modules(modules, texts), word not in ("-", "/dev/stdin", "run"))
        elif (word.lower() in taking or word in taking) and words:
            words.pop(0)
    return _with_modules(modules, texts), False


def _with_modules(modules: list[str], texts: list[str]) -> list[str]:
    """`perl -M'Module; code'` runs what follows the name."""
    uses = [f"use {module};" for module in modules if not re.fullmatch(r"[\w:=,]+", module)]
    return [*uses, *texts] if texts else []


def _after_letter(base: str, word: str, letters: str) -> str | None:
    """Return what is attached to the option that code follows; None if it is not that option."""
    if not letters or not re.match(r"-[A-Za-z0-9]", word):
        return None
    if base in ("pwsh", "powershell"):
        return "" if re.fullmatch(r"-(c|e|ec)", word.lower()) else None
    for position, letter in enumerate(word[1:], 1):
        if letter in letters:
            return word[position + 1 :].strip(letters if letters == "ep" else "")  # `node -pe`
        if base == "perl" and letter in _PERL_VALUES:
            if letter not in "l0i":
                return None
            rest = word[position + 1 :].lstrip(
                "0123456789.abktmp~" if letter == "i" else "01234567"
            )
            if rest != word[position + 1 :]:
                return _after_letter(base, f"-{rest}", letters) if rest else None
        elif (
            not letter.isalnum()
            or (base == "ruby" and letter in "rICEKWFTx0")
            or (base in ("python", "pypy") and letter in "mXWQ")
            or (base == "php" and letter in "dcztSf")
        ):
            return None
    return None


def has_gap(text: str, invocation: Invocation) -> bool:
    """Return whether a part of the code is unknown that may be more than a number or a name."""
    if UNKNOWN not in text:
        return False
    safe = invocation.feeders <= _SAFE_FEEDERS and bool(invocation.fed_by)
    return not safe or bool(_WHOLE_GAP.fullmatch(text)) or bool(invocation.drawn)


def read_code(invocation: Invocation, context: ShellContext) -> CodeEffects | None:
    """Return the effects of code on the command line or on standard input; None without code."""
    texts = inline_texts(invocation)
    if texts is None:
        return None
    effects = CodeEffects(invocation, context)
    text = "\n".join(texts)
    if has_gap(text, invocation):
        effects.hide("a part of the code is known only when it runs")
    else:
        read_text(interpreter_name(invocation.name), text.replace(UNKNOWN, "1"), effects)
    return effects


def read_text(base: str, text: str, effects: CodeEffects) -> None:
    """Read code of the language of the interpreter `base`."""
    # Loaded with the first code: most commands have none.
    from hermes.security.danger import python_code, script_code

    if len(text) > MAX_CODE:
        effects.hide("the code is too long to be read")
    elif base in PYTHONS or base in PYTHON_CONSOLES:
        python_code.read_python(text, effects)
    else:
        script_code.read_script(base, text, effects)
    effects.note_secrets(text)


CODE_CLASSES = (
    ("dangerous inline code", "runs code given as text that does harm"),
    ("inline code", "runs code given as text that cannot be read"),
    ("write outside the workspace", "the code writes outside the workspace"),
)
ONCE_ONLY = frozenset({
    "inline code", "shell -c", "pipe to a shell", "hidden command", "unreadable command",
    "remote code",
})  # fmt: skip
"""Classes of what cannot be read: approval for one call says nothing about the next."""


def code_findings(effects: CodeEffects) -> list[tuple[str, str]]:
    """Return class and reason of what is said against the code itself."""
    found = list(effects.dangers)
    if effects.unreadable and effects.online:
        hidden = any("only when it runs" in reason for reason in effects.unreadable)
        found += [("remote code", "runs code fetched from the network")] if hidden else []
    return [*found, *(("inline code", reason) for reason in effects.unreadable)]


def written_effects(
    base: str, text: str, invocation: Invocation, context: ShellContext
) -> CodeEffects:
    """Return the effects of a script that the same command has written and now runs."""
    effects = CodeEffects(msgspec.structs.replace(invocation, stdin=""), context)
    read_text(base, text, effects)
    return effects
