"""write_file: put text into a file, whole."""

from collections.abc import Callable
from typing import Any

from hermes.core.errors import ToolArgumentsInvalid, ToolDenied
from hermes.core.tool import Concern, Effect, Tool
from hermes.security.paths import Guard
from hermes.terminal.base import Files
from hermes.tools.texts import failure, plural, shown


def write_file_tool(files: Files, guard: Guard, folder: Callable[[], str]) -> Tool:
    """`folder` gives where relative paths start."""

    async def write_file(path: str, content: str) -> str:
        """Write a whole file; missing folders are made, an existing file is replaced."""
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise ToolArgumentsInvalid(f"content is not valid text: {error.reason}") from error
        try:
            real = await files.locate(path)
            # Looked at again where it counts: a link may have changed since the call was allowed.
            if reason := guard.refuses_writing(real):
                raise ToolDenied(f"{shown(path)} must not be written: {reason}")
            existed = await files.stat(real) is not None
            await files.write(real, data)
        except OSError as error:
            raise failure("write", path, error) from error
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        done = "replaced" if existed else "created"
        return f"{done} {shown(path)}: {plural(len(data), 'byte')}, {plural(lines, 'line')}"

    def examine(arguments: dict[str, Any]) -> Concern | None:
        return guard.writing(str(arguments.get("path", "")), folder())

    return Tool.from_function(
        write_file, effect=Effect.WRITE, toolset="file", serial=True, examine=examine
    )
