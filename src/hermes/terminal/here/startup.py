"""The user's start-up files: read once, when the session's shell begins.

What they export is kept, as if a first command had exported it. Aliases, functions and options
are not: commands run in a shell that is not interactive, and a script does not see them either.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from hermes.config.masking import is_secret_variable

_EXPORTED = re.compile(rb"^(?:declare -\w+|export) (\w+)", re.MULTILINE)


class ShellOptions(msgspec.Struct, frozen=True):
    init_files: tuple[str, ...] = ()
    """Files read after ~/.bashrc: `terminal.shell_init_files`."""
    source_bashrc: bool = True
    """Whether ~/.bashrc is read: `terminal.auto_source_bashrc`."""
    withheld: frozenset[str] = frozenset()
    """Variables commands must not see, whatever their names: those that stand in .env."""
    init_seconds: float = 5
    """The longest that one file may take."""


def startup_commands(options: ShellOptions, home: str) -> Iterator[str]:
    """A command for each file that is there."""
    names = (*(("~/.bashrc",) if options.source_bashrc else ()), *options.init_files)
    for name in names:
        path = Path(home + name[1:] if name.split("/")[0] == "~" else name)
        if path.is_absolute() and path.is_file():
            yield f". {shlex.quote(str(path))}"


def withholding_command(
    options: ShellOptions, exports: Path, environment: Mapping[str, str]
) -> str:
    """Takes back what the files exported although commands must not see it; "" when nothing."""
    if not exports.exists():
        return ""
    text = exports.read_bytes()
    # A line inside a value may look like a variable; to unset one that is not there does no harm.
    names = {
        name
        for name in map(bytes.decode, _EXPORTED.findall(text))
        if (is_secret_variable(name) or name in options.withheld) and name not in environment
    }
    if not names:
        return ""
    # What is read-only cannot be unset, but the next shell need not make it so.
    choice = "|".join(sorted(names)).encode()
    exports.write_bytes(
        re.sub(rb"(?m)^declare -\w*r\w* (?=(?:%b)\b)" % choice, b"declare -x ", text)
    )
    return f"unset -v {' '.join(sorted(names))}"
