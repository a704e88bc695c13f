"""What `bash` (or `sh`) is told to do around a command so that commands form one session."""

import shlex
from pathlib import Path

from hermes.terminal.here.spawn import ANNOUNCE

# `cd` comes before the saved variables, which put OLDPWD back.
BEGIN = (
    ANNOUNCE
    + r"""
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; fi
PWD=$1
set --
{sudo}"""
)

# The trap survives `exit`, `set -e` and a syntax error; `command` and `>|` keep it working after
# functions of those names and `set -C`.
FOREGROUND = (
    BEGIN
    + r"""
trap {leaving} EXIT
. {command}
"""
)

LEAVING = 'command export -p >|{exports}.new; command printf "%s\\n" "$PWD" >|{cwd}'

# Read into memory, so that messages do not begin with the name of a private file.
BACKGROUND = (
    BEGIN
    + r"""
{terminal}
set -- "$(/bin/cat {command})"
eval "shift; $1"
"""
)

# bash says `dumb` where nothing is said.
TERMINAL = """case "${TERM:-dumb}" in dumb) export TERM=xterm-256color ;; esac"""

# sudo itself asks this program when it needs the password, and only then. On its standard input
# (-S) the password would reach the command wherever sudo does not need it.
SUDO = r"""if command -v sudo >/dev/null; then
sudo() {{
case "${{1-}}" in -[AS]*|--askpass|--stdin) command sudo "$@" ;;
*) SUDO_ASKPASS={askpass} command sudo -A "$@" ;; esac
}}
fi"""


class Scripts:
    """The scripts of one session, whose files lie in `folder`."""

    def __init__(self, folder: Path, sudo_password: str) -> None:
        self._folder = folder
        self._sudo = self._arrange_sudo(sudo_password) if sudo_password else ""
        self.command = folder / "command"
        self.exports = folder / "exports"
        self.cwd = folder / "cwd"
        leaving = LEAVING.format(exports=_quoted(self.exports), cwd=_quoted(self.cwd))
        self.foreground = FOREGROUND.format(
            exports=_quoted(self.exports),
            leaving=shlex.quote(leaving),
            command=_quoted(self.command),
            sudo=self._sudo,
        )
        self._started = 0

    def background(self, command: bytes, *, terminal: bool) -> str:
        """Files of its own keep the variables of now, whatever later commands do."""
        self._started += 1
        exports, source = (
            self._folder / f"{kind}.{self._started}" for kind in ("exports", "command")
        )
        source.write_bytes(command)
        if self.exports.exists():
            exports.hardlink_to(self.exports)
        return BACKGROUND.format(
            exports=_quoted(exports),
            command=_quoted(source),
            sudo=self._sudo,
            terminal=TERMINAL if terminal else "",
        )

    def _arrange_sudo(self, password: str) -> str:
        """A program that tells sudo the password; the folder is private to this user."""
        program = self._folder / "askpass"
        program.touch(0o700)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password)}\n")
        return SUDO.format(askpass=_quoted(program))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
