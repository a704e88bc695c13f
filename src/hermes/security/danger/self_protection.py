"""Changes to Hermes itself: its settings, keys and approvals, and whether it runs."""

import re
from itertools import pairwise

from hermes.security.danger.code import code_texts, downloaded_files
from hermes.security.danger.context import (
    COPIERS,
    IN_PLACE,
    WRITES_ALL,
    WRITES_LAST,
    ShellContext,
    copied,
    copy_destinations,
    extraction_folder,
    filled_folders,
    in_place,
    is_pattern,
    operands,
    touched_paths,
    written_paths,
)
from hermes.security.paths import OWN_TOOLS
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.wrappers import option_values
from hermes.security.tables import word_list

POLICY = r"(approvals|command_allowlist|security|terminal|hooks|plugins|code_execution|yolo)"
POLICY_COMMANDS = re.compile(
    rf"config (set|unset|add|remove) \S*?\b{POLICY}|pairing (approve|revoke|clear)"
    r"|approvals (forget|remove|confirm|allow|add|clear|set|reset)\b"
    r"|auth (add|remove|reset|login|logout|bind)\b"
    r"|log(in|out)\b|hooks (accept|revoke|allow)|yolo\b|mcp serve\b"
)
POLICY_FLAGS = frozenset({"--yolo", "--accept-hooks", "--ignore-rules", "--ignore-user-config"})
OTHER_CHANGES = re.compile(
    r"config (set|unset|edit|migrate)\b|(setup|uninstall|update|import|backup|rollback)\b|"
    r"(tools|plugins|mcp|skills|cron|webhook|profile|memory|model|sessions|local|checkpoints|claw|"
    r"honcho) (\S+ )?(enable|disable|install|add|create|remove|rm|uninstall|delete|prune|use|"
    r"rename|edit|set|import|reset|off|restore|migrate|clear)\b|dump\b.*|debug share|doctor fix"
)
POLICY_VARIABLES = word_list("policy_variables")
OWN_CODE = re.compile(
    r"config\.ya?ml|\.env\b|auth\.json|allowlist|approvals|state\.db|mcp-tokens|pairing"
)
_HERMES = re.compile(r"hermes|gateway\b")
_GATEWAY = re.compile(r"\bgateway\s+(run|start)\b")
_TAKERS = frozenset({"rm", "mv", "gmv", "srm", "rimraf", "trash"})
_LOOKERS = frozenset({"ls", "cat", "grep", "wc", "stat", "file", "head", "tail", "du", "echo"})
_LINKERS = frozenset({"ln", "link", "mount", "bindfs", "cp", "mklink"})
_GIT_CHANGES, _FOLDER_CHANGERS = word_list("git_changes"), word_list("folder_changers")


def writes_own(invocation: Invocation, context: ShellContext) -> bool:
    paths, taken = list(written_paths(invocation)), _taken(invocation)
    if any(context.could_change_own(path, invocation, whole=path in taken) for path in paths):
        return True
    listed = any(UNKNOWN in path for path in paths) or "xargs" in invocation.via
    if listed and _changes(invocation) and _found_own(invocation, context):
        return True
    if invocation.name == "git":
        paths += option_values(invocation.arguments, ("-C", "--work-tree", "--git-dir"))
    paths += _downloads(invocation)
    made = set(copy_destinations(invocation)) if invocation.name in COPIERS else set()
    for path in paths:
        real = context.real(path, invocation)
        if not real or is_pattern(path):
            continue
        if context.is_own_to_write(real):
            return True
        if context.holds_own(real) and (
            path in taken or path in made or _changes_folder(invocation, real, context)
        ):
            return True
    folder = extraction_folder(invocation, context)
    if folder and context.own_part(folder) == "" and _changes_here(invocation):
        return True
    return _links_own(invocation, context) or _changes_found(invocation, context)


def writes_tool_folder(invocation: Invocation, context: ShellContext) -> bool:
    """Skills and memories, which have tools of their own."""
    reals = (context.real(path, invocation) for path in written_paths(invocation))
    parts = (context.own_part(real) for real in reals if real)
    return any(part and part.partition("/")[0] in OWN_TOOLS for part in parts)


def _taken(invocation: Invocation) -> list[str]:
    """Return what the program moves or deletes, with everything in it."""
    if invocation.name not in _TAKERS:
        return []
    return copied(invocation)[0] if invocation.name in ("mv", "gmv") else operands(invocation)


def _downloads(invocation: Invocation) -> list[str]:
    """Return the files that a download program names after the address."""
    if invocation.name not in ("curl", "wget", "aria2c", "axel"):
        return []
    folders = option_values(
        invocation.arguments, ("--output-dir", "-P", "--directory-prefix", "-d")
    )
    folder = next(folders, ".")
    return [f"{folder}/{name}" for name in downloaded_files(invocation) if name]


def fills_own(invocation: Invocation, context: ShellContext) -> bool:
    """Unknown files written to a folder above the Hermes home, keys and start-up files."""
    for path in filled_folders(invocation):
        real = context.real(path, invocation) if UNKNOWN not in path else ""
        if real and context.leads_to_own(real):
            return True
    return False


def _changes(invocation: Invocation) -> bool:
    name = invocation.name
    return name in WRITES_ALL or name in WRITES_LAST or (name in IN_PLACE and in_place(invocation))


def _found_own(invocation: Invocation, context: ShellContext) -> bool:
    """`sed -i … $(find ~ -name config.yaml -path '*hermes*')`, `cp x $(ls -d ~/.h*)/x`."""
    for source in invocation.sources:
        named = [word for word in source.arguments if word[:1] in "/~"]
        if any(context.could_change_own(word, source, whole=True) for word in named):
            return True
    text = " ".join(word for source in invocation.sources for word in source.words)
    return "hermes" in text and bool(OWN_CODE.search(text) or re.search(r"config|\.ya?ml", text))


def _changes_folder(invocation: Invocation, real: str, context: ShellContext) -> bool:
    """A folder removed or filled, with files of Hermes in it."""
    name = invocation.name
    if name not in _FOLDER_CHANGERS:
        return False
    if name == "git":
        return bool(_GIT_CHANGES & set(invocation.arguments)) and context.own_part(real) == ""
    return context.own_part(real) is not None


def _changes_here(invocation: Invocation) -> bool:
    words = invocation.arguments
    if invocation.name == "git":
        return bool(_GIT_CHANGES & set(words[:3]))
    if invocation.name in ("tar", "bsdtar"):
        return any(re.match(r"-?-?\w*x", word) for word in words[:2])
    return True


def _links_own(invocation: Invocation, context: ShellContext) -> bool:
    """A second name for files of Hermes, through which they could be written."""
    if invocation.name not in _LINKERS:
        return False
    if invocation.name == "cp" and not re.search(
        r"(^|\s)(-\w*[ls]|--(symbolic-)?link)\b", invocation.text
    ):
        return False
    sources = (context.real(path, invocation) for path in operands(invocation)[:-1])
    return any(real and (context.is_own(real) or context.own_part(real) == "") for real in sources)


def _changes_found(invocation: Invocation, context: ShellContext) -> bool:
    """`find` in the Hermes home that deletes, or runs a program that does more than read."""
    words = invocation.arguments
    if invocation.name != "find" or not words:
        return False
    real = context.real(words[0], invocation)
    if not real or context.own_part(real) != "":
        return False
    runs = {after for word, after in pairwise(words) if word.startswith(("-exec", "-ok"))}
    return "-delete" in words or not runs <= _LOOKERS


def mentions_own(invocation: Invocation, context: ShellContext) -> bool:
    """Code that names settings, keys or approvals of Hermes."""
    roots = [re.escape(str(root)) for root in context.guard.own]
    home = re.compile("|".join([r"\.hermes\b", "HERMES_HOME", *roots]))
    return any(
        home.search(text) and OWN_CODE.search(text) for text in code_texts(invocation, context)
    )


def subcommand(invocation: Invocation) -> str:
    """Return the words of a `hermes` command without options and profile name."""
    words = list(invocation.arguments)
    for flag in ("-p", "--profile"):
        if flag in words:
            del words[words.index(flag) : words.index(flag) + 2]
    return " ".join(word for word in words if not word.startswith("-"))


def changes_policy(invocation: Invocation, _context: ShellContext) -> bool:
    flags = not POLICY_FLAGS.isdisjoint(invocation.arguments)
    return flags or bool(POLICY_COMMANDS.match(subcommand(invocation)))


def sets_policy_variable(invocation: Invocation, _context: ShellContext) -> bool:
    names = {name for name, _ in invocation.assignments}
    if invocation.name in ("env", "export", "sudo", "declare", "typeset", "set", "setenv", "read"):
        names |= {word.partition("=")[0] for word in invocation.arguments if "=" in word}
        names |= set(invocation.arguments[:1]) if invocation.name in ("setenv", "read") else set()
    return not POLICY_VARIABLES.isdisjoint(names)


def changes_settings(invocation: Invocation, _context: ShellContext) -> bool:
    return bool(OTHER_CHANGES.match(subcommand(invocation)))


def stops_hermes(invocation: Invocation, _context: ShellContext) -> bool:
    if invocation.name == "hermes":
        return bool(re.search(r"\bgateway\s+(stop|restart|uninstall)\b", invocation.text))
    fed = [word for source in invocation.sources for word in source.words]
    text = " ".join((*invocation.arguments, *fed))
    return bool(_HERMES.search(text)) or "$PPID" in invocation.arguments


def service_of_hermes(invocation: Invocation, _context: ShellContext) -> bool:
    verbs = r"\b(stop|restart|disable|mask|kill|try-restart|reload|bootout|unload|remove)\b"
    return bool(re.search(verbs, invocation.text)) and bool(_HERMES.search(invocation.text))


def detached_gateway(invocation: Invocation, _context: ShellContext) -> bool:
    launchers = {"nohup", "setsid", "disown", "tmux", "screen", "systemd-run", "daemonize", "at",
                 "daemon", "start-stop-daemon", "batch", "script", "zellij"}  # fmt: skip
    detached = invocation.background or launchers & set(invocation.via)
    return bool(detached) and bool(_GATEWAY.search(" ".join(invocation.words)))


def copies_own(invocation: Invocation, context: ShellContext) -> bool:
    """The whole Hermes home, including keys, copied elsewhere."""
    copiers = ("tar", "zip", "cp", "rsync", "scp", "7z", "bsdtar", "grep", "rg", "nc")
    if invocation.name not in copiers:
        return False
    reals = (
        context.real(path, invocation) for path in touched_paths(invocation) if UNKNOWN not in path
    )
    return any(real and context.own_part(real) in ("", "profiles") for real in reals)
