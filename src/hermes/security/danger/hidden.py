"""Programs whose name does not say what they are."""

import re
import unicodedata

from hermes.security.danger.interpreters import DECODERS, HARMLESS_EVAL
from hermes.security.danger.rule import Rule, always, says, says_exactly
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation

_ARGUMENTS = frozenset({"@", "*", *"123456789"})
"""What a shell was started with; a function knows its own."""
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_MIXED = re.compile("[A-Za-z][\u0430-\u045f\u0400-\u042f]|[\u0430-\u045f\u0400-\u042f][A-Za-z]")
"""Cyrillic letters right beside Latin ones."""
_UNCERTAIN = re.compile(rf"[{UNKNOWN}*?\[]")
_HIJACK = re.compile(
    r"LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|BASH_ENV|PROMPT_COMMAND|PYTHONSTARTUP|PERL5OPT"
    r"|PERL5DB|RUBYOPT|SHELLOPTS|BASH_FUNC_.*|GIT_EXEC_PATH|GIT_TEMPLATE_DIR"
)
_HIJACK_VALUES = {
    "PATH": re.compile(r"(/tmp|/var/tmp|/dev/shm|\.)(/|:|\Z)"),
    "NODE_OPTIONS": re.compile(r".*(--(require|import|loader)|-r\s)"),
    "JAVA_TOOL_OPTIONS": re.compile(r".*-javaagent"),
    "_JAVA_OPTIONS": re.compile(r".*-javaagent"),
}
"""Variables that are harmless with most values."""


def hidden_command(invocation: Invocation, _scene: Scene) -> bool:
    """The name of the program is known only when the command runs."""
    name = invocation.name
    if not DECODERS.isdisjoint(invocation.named_by):
        return True
    arguments = invocation.uses & _ARGUMENTS - invocation.known.keys()
    if arguments and (not invocation.words or name == "eval"):
        return True
    if name == "eval" and not DECODERS.isdisjoint(invocation.feeders):
        return True
    if name == "eval":
        unknown = any(UNKNOWN in word for word in invocation.arguments)
        return unknown and not (invocation.feeders and invocation.feeders <= HARMLESS_EVAL)
    if not invocation.words or name in ("[", "[["):
        return False
    return bool(_UNCERTAIN.search(name)) or name in ("{}", "%")


def look_alike(invocation: Invocation, _scene: Scene) -> bool:
    """Letters of another script in the name of a program or of a host."""
    words = invocation.words
    if words and not words[0].isascii():
        name = words[0].rpartition("/")[2].replace(UNKNOWN, "")
        if not name.isascii() and ("/" not in words[0] or _imitates_name(name)):
            return True
    if any(not word.isascii() and _imitates(word) for word in words[1:]):
        return True
    hosts = (re.match(r"\w+://([^/]*)", word) for word in words[1:] if not word.isascii())
    return any(host and not host[1].replace(UNKNOWN, "").isascii() for host in hosts)


def _imitates_name(name: str) -> bool:
    return bool(_MIXED.search(name)) or unicodedata.normalize("NFKC", name).isascii()


def _imitates(word: str) -> bool:
    """A wide `｜`, a long dash before letters, letters of two scripts: not what they look like."""
    if _MIXED.search(word) and not re.search(r"\s", word):
        return True
    plain = _DASHES.sub("-", unicodedata.normalize("NFKC", word))
    return plain != word and bool(re.fullmatch(r"[|&;<>]{1,3}|--?[A-Za-z][\w-]*", plain))


def hijacks(invocation: Invocation, scene: Scene) -> bool:
    """Variables that make other programs load or run something."""
    pairs = list(invocation.assignments)
    if invocation.name in ("env", "sudo", "export", "doas"):
        words = (word.partition("=") for word in invocation.arguments)
        pairs += [(name, value) for name, found, value in words if found]
    for name, value in pairs:
        if name == "PATH" and value.startswith((f"{scene.home}/", f"{scene.folder}/")):
            continue
        risky = _HIJACK_VALUES.get(name)
        if (value and _HIJACK.fullmatch(name)) or (risky and risky.match(value)):
            return True
    return False


HIDDEN = "hidden command"
RULES = (
    Rule(HIDDEN, "the program to run is known only at run time", "", hidden_command),
    Rule(HIDDEN, "makes a name stand for another program", "hash", says_exactly(r"(^|\s)-p\b")),
    Rule(HIDDEN, "takes its parts from another folder", "git", says_exactly(r"(^|\s)--exec-path=")),
    Rule(
        HIDDEN,
        "takes its hooks from another folder",
        "git",
        says(r"\bconfig\s.*(core\.hookspath|init\.templatedir)[ =][/~]"),
    ),
    Rule(HIDDEN, "connects through another program", "scp sftp", says_exactly(r"(^|\s)-S\s*\S*/")),
    Rule(HIDDEN, "loads a program into the shell", "enable", says_exactly(r"(^|\s)-f\b")),
    Rule(HIDDEN, "starts a program through the loader", "ld.so", always),
    Rule(HIDDEN, "changes what programs load or run", "", hijacks),
    Rule("hidden characters", "looks like another program or address", "", look_alike),
)
