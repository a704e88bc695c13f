"""Commands among the words of programs nothing is known of: wrappers that are in no list."""

import re
from collections.abc import Iterator
from itertools import pairwise

from hermes.security.shell.model import Invocation, program

SHARP = frozenset({
    "rm", "rimraf", "shred", "dd", "find", "chmod", "chown", "kill", "pkill", "killall", "bash",
    "sh", "zsh", "dash", "ksh", "ash", "fish", "python", "python3", "perl", "ruby", "node", "php",
    "psql", "mysql", "mariadb", "mysqladmin", "mongosh", "mongo", "redis-cli", "sqlite3", "dropdb",
    "systemctl", "mkfs", "busybox", "xargs", "truncate", "wipefs", "mkfs.ext4", "shutdown",
})  # fmt: skip
"""Names that stand among the words of another program when that one is to start them."""
_ALONE = frozenset({"redis-cli", "dropdb", "busybox", "xargs", "dd", "systemctl"})
"""These need no option to do harm."""
HOLDS_TEXT = frozenset({
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "git", "gh", "glab",
    "hub", "cat", "man", "tldr", "help", "which", "whereis", "type", "command", "apropos", "whatis",
    "ls", "ll", "cd", "pushd", "test", "[", "[[", "touch", "mkdir", "cp", "mv", "ln", "sed", "gsed",
    "awk", "gawk", "mawk", "jq", "yq", "tr", "cut", "sort", "uniq", "wc", "head", "tail", "less",
    "more", "diff", "comm", "tee", "vim", "vi", "nano", "code", "fzf", "say", "open", "logger",
    "notify-send", "cowsay", "figlet", "basename", "dirname", "expr", "seq", "date", "export",
    "declare", "local", "readonly", "typeset", "alias", "unalias", "read", "set", "unset", "return",
    "exit", "true", "false", ":", "curl", "wget", "http", "https", "xh", "apt", "apt-get",
    "aptitude", "dnf", "yum", "zypper", "apk", "pacman", "snap", "flatpak", "brew", "port", "pip",
    "pip3", "conda", "mamba", "micromamba", "gem", "cargo", "go", "rustup", "nvm", "pyenv", "rbenv",
    "asdf", "mise", "choco", "winget", "scoop", "nix-env", "dpkg", "rpm", "pgrep", "pidof", "ps",
    "pytest", "jest", "vitest", "mocha", "make", "gmake", "just", "task", "hermes", "ast-grep",
    "sg", "jira", "aider", "claude", "codex", "llm", "slack", "mail", "sendmail", "trans", "dict",
    "file", "stat", "tree", "du", "df", "sha256sum", "md5sum", "complete", "compgen", "history",
    "hash", "rm", "chmod", "chown", "kill", "pkill", "killall", "dd", "shred", "truncate", "find",
    "fd", "locate", "lsof", "strings", "xxd", "base64", "column", "paste", "bat", "shellcheck",
    "shfmt", "dig", "host", "nslookup", "ping", "pandoc", "bats", "semgrep", "cspell", "vale",
    "explainshell", "bq", "terraform", "ansible-lint", "cmake", "cc", "gcc", "clang", "todo",
})  # fmt: skip
"""Programs whose words are text, names or files, never a command."""
_TAKES_TEXT = frozenset({
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "echo", "printf", "git", "man", "which", "pytest",
    "install", "add", "search", "info", "show", "help", "apt", "apt-get", "brew", "pip", "tldr",
})  # fmt: skip
"""After one of these words no command is looked for."""
_COMMAND_TEXT = re.compile(
    rf"\s*(?:sudo\s+)?(?:[\w./-]*/)?(?:{'|'.join(map(re.escape, sorted(SHARP)))})\s+-\w"
)
_RUN_WORDS = frozenset({"run", "exec", "shell", "ssh", "sh", "cmd", "command", "invoke", "enter"})
_OPTION_VALUE = re.compile(r"--?[\w-]+=")
MOST_WORDS = 24
"""Words that are looked at."""


def guessed_words(invocation: Invocation) -> list[str]:
    """The words from a sharp name on, when an option follows it: `tool enter box rm -rf x`."""
    if invocation.name in HOLDS_TEXT:
        return []
    words = invocation.arguments[:MOST_WORDS]
    for position, word in enumerate(words):
        name = program(word)
        if name in _TAKES_TEXT:
            return []
        if name not in SHARP:
            continue
        after = words[position + 1 : position + 2]
        if after and (after[0].startswith("-") or name in _ALONE):
            return list(invocation.arguments[position:])
    return []


def guessed_texts(invocation: Invocation) -> Iterator[str]:
    """Values of options, or words after `run` and the like, that are a command line of a sharp
    program: `tool --script='rm -rf x'`. A program of the project may do with its words what it
    likes."""
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
