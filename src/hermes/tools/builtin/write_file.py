"""The tool `write_file`: write a whole file."""

from typing import Any

from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.security import PathGuard
from hermes.terminal import Files
from hermes.tools.editing.document import (
    TextDocument,
    encode_text,
    is_binary,
    new_syntax_problem,
    normalize_argument,
)
from hermes.tools.editing.files import (
    FileEdit,
    FileEditor,
    FileReads,
    WriteTarget,
    display_path,
    plural,
    run_sized,
)
from hermes.tools.registry import ToolDeps, ToolEntry


def write_file_tool(
    files: Files, guard: PathGuard, reads: FileReads, *, isolated: bool = False
) -> Tool:
    editor = FileEditor(files, guard, reads, isolated=isolated)

    async def write_file(call: ToolContext, path: str, content: str) -> str:
        """Write a whole file; missing folders are made, an existing file is replaced."""
        normalize_argument(content, "content")
        target = await editor.target(call, path)
        old = await editor.content(target)
        data, note = _match_encoding(old, content)
        warning = _stale_warning(editor, target)
        await editor.save(call, [FileEdit(target, old, data)])
        problem = await run_sized(len(data), lambda: new_syntax_problem(target.real, old, data))
        done = "replaced" if target.exists else "created"
        lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        summary = (
            f"{done} {display_path(path)}: {plural(len(data), 'byte')}, {plural(lines, 'line')}"
        )
        checked = f"[syntax error: {problem}]" if problem else ""
        return "\n".join(filter(None, [warning, summary + note, checked]))

    async def examine(arguments: dict[str, Any]) -> Concern | None:
        return await editor.examine([str(arguments.get("path", ""))])

    return Tool.from_function(
        write_file, effect=Effect.WRITE, toolset="file", serial=True, examine=examine
    )


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


def _stale_warning(editor: FileEditor, target: WriteTarget) -> str:
    if target.stale:
        return (
            f"warning: {display_path(target.path)} had been changed since you last saw it; "
            "those changes are overwritten"
        )
    if editor.is_unread(target):
        return f"note: {display_path(target.path)} existed and you had not read it"
    return ""


def make(deps: ToolDeps) -> Tool:
    return write_file_tool(deps.place.files, deps.guard, deps.reads, isolated=deps.place.isolated)


ENTRY = ToolEntry("write_file", "file", make, emoji="✍️")
