"""Letting the user edit a text."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from hermes.cli.context import Cli
from hermes.config.editor import editor_command
from hermes.core.errors import HermesError, UsageError


class Draft:
    """A copy of a text in a folder of its own, so that an editor's side files go with it. Kept when
    it could not be used."""

    def __init__(self, text: str, name: str, cli: Cli) -> None:
        self._command = editor_command(terminal=cli.interactive)
        self.file = Path(tempfile.mkdtemp(prefix="hermes-memory-")) / name
        self.file.write_text(text, "utf-8")

    def drop(self) -> None:
        shutil.rmtree(self.file.parent, ignore_errors=True)

    def edited(self) -> str:
        """The text after the user's editor has ended. Raises `HermesError`."""
        try:
            code = subprocess.run([*self._command, str(self.file)], check=False).returncode
        except OSError as error:
            self.drop()
            problem = f"cannot run the editor {self._command[0]!r} ({error.strerror})"
            raise UsageError(problem, hint="set EDITOR") from error
        if code:
            raise self.refused(f"the editor ended with code {code}")
        try:
            text = self.file.read_bytes().decode()
        except OSError as error:
            self.drop()
            raise HermesError("the editor left no text", hint="nothing was changed") from error
        except UnicodeDecodeError as error:
            raise self.refused(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self.refused("it holds binary data")
        return text

    def refused(self, why: str) -> HermesError:
        return HermesError(f"not saved: {why}", hint=f"your text is in {self.file}")
