"""Letting the user edit a text."""

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from hermes.cli.context import Cli
from hermes.config import environment
from hermes.core.errors import HermesError, UsageError


class Draft:
    """A copy of a text in a folder of its own, so that an editor's side files go with it. Kept when
    it could not be used."""

    def __init__(self, text: str, name: str) -> None:
        self.file = Path(tempfile.mkdtemp(prefix="hermes-memory-")) / name
        self.file.write_text(text, "utf-8")

    def drop(self) -> None:
        shutil.rmtree(self.file.parent, ignore_errors=True)

    def edited(self, cli: Cli) -> str:
        """The text after the user's editor has ended. Raises `HermesError`."""
        code = subprocess.run([*_editor(cli), str(self.file)], check=False).returncode
        if code:
            raise HermesError(
                f"the editor ended with code {code}; nothing was changed",
                hint=f"your text is in {self.file}",
            )
        try:
            text = self.file.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise self.refused(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self.refused("it holds binary data")
        return text

    def refused(self, why: str) -> HermesError:
        return HermesError(f"not saved: {why}", hint=f"your text is in {self.file}")


def _editor(cli: Cli) -> list[str]:
    chosen, path = environment.editor(), environment.search_path()
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0], path=path):
            return command
        raise UsageError(f"cannot find the editor {command[0]!r}", hint="set EDITOR")
    found = [each for each in ("vi", "nano") if shutil.which(each, path=path)]
    if not cli.interactive or not found:
        raise UsageError("there is no editor to use", hint="set EDITOR")
    return found[:1]
