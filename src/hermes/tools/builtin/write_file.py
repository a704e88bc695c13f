"""The tool `write_file`: write a whole file."""

from typing import Any

from hermes.core.errors import ToolError
from hermes.core.tool import Concern, Effect, StructuredText, ToolContext
from hermes.tools.editing.document import (
    TextDocument,
    encode_text,
    full_diff,
    is_binary,
    new_syntax_problem,
    normalize_argument,
)
from hermes.tools.editing.files import (
    NO_CALL,
    FileEdit,
    FileEditor,
    display_path,
    plural,
    run_sized,
)
from hermes.tools.registry import ToolDeps, tool


@tool(name="write_file", toolset="file", effect=Effect.WRITE, serial=True, emoji="✍️")
class WriteFile:
    def __init__(self, deps: ToolDeps) -> None:
        self._editor = FileEditor(deps)

    async def write_file(
        self, call: ToolContext, path: str, content: str, overwrite: bool = False
    ) -> str:
        """Write a whole file; missing folders are created. Read an existing file first.

        overwrite: replace an existing file without having read it
        """
        normalize_argument(content, "content")
        target = await self._editor.target(call, path)
        if not overwrite:
            self._editor.require_read(target)
        old = await self._editor.content(target)
        data, note = _match_encoding(old, content)
        await self._editor.save(call, [FileEdit(target, old, data)])
        problem = await run_sized(len(data), lambda: new_syntax_problem(target.real, old, data))
        done = "replaced" if target.exists else "created"
        lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        size = f"{plural(len(data), 'byte')}, {plural(lines, 'line')}"
        summary = f"{done} {display_path(path)}: {size}{note}"
        checked = f"[syntax error: {problem}]" if problem else ""
        text = "\n".join(filter(None, [summary, checked]))
        return StructuredText(
            text, success=True, path=path, bytes_written=len(data), syntax_error=problem or None
        )

    async def examine(self, arguments: dict[str, Any]) -> Concern | None:
        return await self._editor.examine([str(arguments.get("path", ""))])

    async def preview(self, arguments: dict[str, Any]) -> str:
        path, content = str(arguments.get("path", "")), str(arguments.get("content", ""))
        try:
            old = await self._editor.content(await self._editor.target(NO_CALL, path))
        except ToolError:
            return ""  # the call fails too, and reports why
        data, _ = _match_encoding(old, content)
        return await run_sized(len(data), lambda: full_diff(display_path(path), old, data))


def _match_encoding(old: bytes | None, content: str) -> tuple[bytes, str]:
    """Return the content with the line ends and byte order mark of the old file, and a note.

    `read_file` shows neither to the model, so a rewrite would lose them. Content that has carriage
    returns or a mark of its own is not changed.
    """
    if not old or is_binary(old):
        return content.encode(), ""
    document, kept = TextDocument(old), []
    if document.crlf and "\n" in content and "\r" not in content:
        content = content.replace("\n", "\r\n")
        kept.append("CRLF line ends")
    has_bom = document.has_bom and not content.startswith("\ufeff")
    if has_bom:
        kept.append("byte order mark")
    return encode_text(content, has_bom=has_bom), f" ({' and '.join(kept)} kept)" if kept else ""
