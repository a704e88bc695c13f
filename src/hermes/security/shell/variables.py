"""The variables of a command line while it is read: values, other possible values, arguments."""

from collections.abc import Mapping

from hermes.security.shell.model import SPLIT, UNKNOWN, Invocation

DEFAULTS = {
    "IFS": " ", "HOME": "~", "TMPDIR": "/tmp", "SHELL": "bash", "BASH": "bash", "0": "bash",
    "PPID": "$PPID", "XDG_CONFIG_HOME": "~/.config", "EDITOR": "vi", "VISUAL": "vi",
    "PAGER": "less", "BROWSER": "firefox", "CC": "cc", "CXX": "c++", "CPP": "cpp", "LD": "ld",
    "AR": "ar", "PYTHON": "python", "PYTHON3": "python3", "PY": "python", "PIP": "pip",
    "NODE": "node", "NPM": "npm", "GO": "go", "CARGO": "cargo", "MAKE": "make", "CMAKE": "cmake",
    "JAVA": "java", "RUBY": "ruby", "PERL": "perl", "DOCKER": "docker", "KUBECTL": "kubectl",
    "COMPOSE": "docker-compose", "PYTEST": "pytest", "TERRAFORM": "terraform", "GIT": "git",
    "@": "", "*": "", **{str(number): "" for number in range(1, 10)},
}  # fmt: skip
"""What a variable stands for when the command itself does not set it. Programs by custom."""

MOST_OTHERS = 32
MOST_DRAWN = 8
LONGEST_VALUE = 20_000
_ARGUMENTS = ("@", "*", *"123456789")


class Variables:
    """Values known at one point of a command. A copy is cheap: setting replaces the mapping."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known: Mapping[str, str] = known
        self.others: Mapping[str, tuple[str, ...]] = {}
        """Values a variable may have instead, after an `if` or in a loop."""
        self.drawn: dict[str, tuple[Invocation, ...]] = {}
        """Programs whose output a variable may hold."""
        self.used: set[str] = set()
        """Names looked up since this was last emptied."""

    def __call__(self, name: str) -> str | None:
        self.used.add(name)
        value = self.known.get(name)
        return value if value is not None else DEFAULTS.get(name)

    def draw(self, name: str, programs: tuple[Invocation, ...]) -> None:
        """The variable holds what `programs` print."""
        if programs:
            self.drawn[name] = programs[-MOST_DRAWN:]

    def assign(self, name: str, value: str, *, maybe: bool = False) -> None:
        """`maybe`: inside an `if`, a loop or after `&&`, so that the old value may stand."""
        if len(value) > LONGEST_VALUE:
            value = UNKNOWN
        before = self.known.get(name)
        others = dict(self.others)
        kept = others.pop(name, ()) if maybe else ()
        if maybe and before is not None and before != value:
            kept = (*kept, before)[-MOST_OTHERS:]
        if kept:
            others[name] = kept
        else:
            others.pop(name, None)
        self.others = others
        self.known = {**self.known, name: value}

    def vary(self, name: str, values: list[str]) -> None:
        """The variable of a loop: each of `values` in turn."""
        self.assign(name, values[0] if values else UNKNOWN)
        if len(values) > 1:
            self.others = {**self.others, name: tuple(values[1 : MOST_OTHERS + 1])}

    def arguments(self, words: list[str]) -> None:
        """What `$1`, `$2` … and `$@` are from here on."""
        numbered = {str(number): word for number, word in enumerate(words[:9], 1)}
        missing = {str(number): "" for number in range(len(words) + 1, 10)}
        joined = SPLIT.join(words)
        self.known = {**self.known, **missing, **numbered, "@": joined, "*": joined}

    def restore_arguments(self, outer: Mapping[str, str]) -> None:
        """The arguments are those of `outer` again; everything else stays."""
        kept = {name: value for name, value in self.known.items() if name not in _ARGUMENTS}
        self.known = {**kept, **{name: outer[name] for name in _ARGUMENTS if name in outer}}

    def saved(self) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
        return self.known, self.others

    def restore(self, saved: tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]) -> None:
        self.known, self.others = saved
