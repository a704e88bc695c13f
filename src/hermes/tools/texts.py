"""Words for the model that several tools share."""

import os

from hermes.core.errors import ToolError


def shown(path: str) -> str:
    """A path as valid text: bytes that are not UTF-8 as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def failure(action: str, path: str, error: OSError) -> ToolError:
    """What the file system refused, in one line."""
    reason = (error.strerror or str(error)).lower()
    return ToolError(f"cannot {action} {shown(path)}: {reason}")


def plural(count: int, noun: str) -> str:
    ending = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"
