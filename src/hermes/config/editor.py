"""The editor of the user."""

import shlex
import shutil

from hermes.config.environment import editor, search_path
from hermes.core.errors import UsageError

FALLBACKS = ("nano", "vim", "vi")


def editor_command(*, terminal: bool = True) -> list[str]:
    """The user's editor and its arguments. Without a terminal only one that was chosen will do.
    Raises `UsageError`."""
    path = search_path()
    try:
        chosen = shlex.split(editor() or "")
    except ValueError as error:
        raise UsageError(f"EDITOR cannot be read: {error}", hint="set EDITOR") from error
    if chosen:
        if shutil.which(chosen[0], path=path) is None:
            raise UsageError(f"cannot find the editor {chosen[0]!r}", hint="set EDITOR")
        return chosen
    found = [each for each in FALLBACKS if shutil.which(each, path=path)]
    if not terminal or not found:
        raise UsageError("there is no editor to use", hint="set EDITOR")
    return found[:1]
