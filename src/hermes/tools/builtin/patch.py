"""The tool `patch`: replace text in a file, or apply a patch to several files."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Concern, Effect, StructuredText, ToolContext
from hermes.tools.editing.document import (
    TextDocument,
    full_diff,
    is_binary,
    new_syntax_problem,
    normalize_argument,
    unified_diff,
)
from hermes.tools.editing.files import (
    MAX_EDIT_BYTES,
    NO_CALL,
    FileEdit,
    FileEditor,
    WriteTarget,
    display_path,
    run_sized,
)
from hermes.tools.registry import ToolDeps, tool

if TYPE_CHECKING:
    from hermes.tools.editing.patch_format import PatchSection

# Every session makes the tool and few use it: what finds places is imported where it is used.


@tool(name="patch", toolset="file", effect=Effect.WRITE, serial=True, emoji="🩹")
class Patch:
    def __init__(self, deps: ToolDeps) -> None:
        self._editor = FileEditor(deps)

    async def patch(
        self,
        call: ToolContext,
        mode: Literal["replace", "patch"] = "replace",
        path: str = "",
        old_string: str = "",
        new_string: str = "",
        replace_all: bool = False,
        patch: str = "",
    ) -> str:
        """Edit files and return the diff.

        mode: replace: old_string with new_string in path; patch: apply `patch` to several files
        old_string: text of the file, with enough lines around it to be unique
        replace_all: every occurrence, instead of exactly one
        patch: *** Begin Patch … *** Update File: P / Add File / Delete File … *** End Patch, or a unified diff
        """  # noqa: E501 - a note is one line
        plan = PatchPlan(self._editor, call)
        if mode == "patch" or (patch and not old_string):
            await plan.apply(patch)
        else:
            await plan.replace(path, old_string, new_string, replace_all=replace_all)
        changes = plan.changes()
        await self._editor.save(call, changes)
        report = lambda: (plan.report(changes), plan.summary(changes))  # noqa: E731 - one value
        text, data = await run_sized(plan.size, report)
        return StructuredText(text, success=True, **data)

    async def examine(self, arguments: dict[str, Any]) -> Concern | None:
        return await self._editor.examine(changed_paths(arguments))

    async def preview(self, arguments: dict[str, Any]) -> str:
        texts = {key: str(arguments.get(key) or "") for key in ("path", "old_string", "patch")}
        plan = PatchPlan(self._editor, NO_CALL)
        try:
            if _is_patch(arguments):
                await plan.apply(texts["patch"])
            else:
                new = str(arguments.get("new_string") or "")
                everywhere = bool(arguments.get("replace_all"))
                await plan.replace(texts["path"], texts["old_string"], new, replace_all=everywhere)
            return await run_sized(plan.size, lambda: plan.full_diff(plan.changes()))
        except ToolError:
            return ""  # the call fails too, and reports why


def _is_patch(arguments: dict[str, Any]) -> bool:
    patch = arguments.get("patch")
    return arguments.get("mode") == "patch" or bool(patch and not arguments.get("old_string"))


def changed_paths(arguments: dict[str, Any]) -> list[str]:
    """Return every file that the call would touch; none for a patch that cannot be parsed."""
    if _is_patch(arguments):
        from hermes.tools.editing.patch_format import parse_patch

        try:
            sections = parse_patch(normalize_argument(str(arguments.get("patch") or ""), "patch"))
            return [path for section in sections for path in section.paths]
        except ToolArgumentsInvalid:
            return []
    return [str(arguments.get("path") or "")]


class PlannedFile(msgspec.Struct):
    """A file before and after the change."""

    target: WriteTarget
    before: bytes | None
    after: bytes | None
    ignored: str = ""  #: Differences that were ignored to find the place.
    moved_from: "PlannedFile | None" = None

    @property
    def base(self) -> bytes | None:
        """The content that the new one is compared with."""
        return self.moved_from.before if self.moved_from else self.before

    @property
    def warning(self) -> str:
        if not self.target.stale:
            return ""
        return f"warning: {display_path(self.target.path)} had been changed since you last saw it"


class PatchPlan:
    """The changes of one call. All are located and approved in memory before one is written."""

    def __init__(self, editor: FileEditor, call: ToolContext) -> None:
        self._editor, self._call = editor, call
        self._files: dict[str, PlannedFile] = {}

    @property
    def size(self) -> int:
        return sum(len(file.after or b"") for file in self._files.values())

    async def apply(self, patch: str) -> None:
        from hermes.tools.editing.patch_format import parse_patch

        for section in parse_patch(normalize_argument(patch, "patch")):
            await self.section(section)

    async def replace(self, path: str, old: str, new: str, *, replace_all: bool) -> None:
        old, new = normalize_argument(old, "old_string"), normalize_argument(new, "new_string")
        file = await self._require_text(path)
        document = TextDocument(file.after or b"")
        from hermes.tools.editing.matching import locate

        def work() -> bytes:
            located = locate(document.text, old, new, replace_all=replace_all)
            file.ignored = located.ignored
            return document.apply(located.edits)

        file.after = await _edit_text(file, work)

    async def section(self, section: "PatchSection") -> None:
        match section.kind:
            case "add":
                file = await self._file(section.path)
                self._require_absent(file)
                file.after = section.content.encode()
            case "delete":
                (await self._require_text(section.path)).after = None
            case "update":
                await self._update(section)

    async def _update(self, section: "PatchSection") -> None:
        file = await self._require_text(section.path)
        if section.hunks:
            document = TextDocument(file.after or b"")
            from hermes.tools.editing.patch_format import locate_hunks

            def work() -> bytes:
                edits, ignored = locate_hunks(document.text, section.hunks)
                file.ignored = ", ".join(ignored)
                return document.apply(edits)

            file.after = await _edit_text(file, work)
        if section.move_to:
            goal = await self._file(section.move_to)
            self._require_absent(goal)
            goal.after, goal.moved_from, goal.ignored = file.after, file, file.ignored
            file.after = None

    async def _file(self, path: str) -> PlannedFile:
        target = await self._editor.target(self._call, path)
        if target.real not in self._files:
            content = await self._editor.content(target)
            self._files[target.real] = PlannedFile(target, content, content)
        return self._files[target.real]

    async def _require_text(self, path: str) -> PlannedFile:
        file = await self._file(path)
        info = file.target.info
        if file.after is not None:
            if is_binary(file.after):
                raise ToolError(
                    f"{display_path(path)} is a binary file",
                    hint="change it with the terminal tool",
                )
            return file
        if info is None or file.before is not None:
            raise ToolError(
                f"there is no file {display_path(path)}", hint="write_file creates a new one"
            )
        if info.kind != "file":
            what = "a folder" if info.kind == "folder" else "a device, pipe or socket"
            raise ToolError(f"{display_path(path)} is {what}")
        limit = MAX_EDIT_BYTES // 1_000_000
        raise ToolError(
            f"{display_path(path)} cannot be read, or is larger than {limit} MB",
            hint="change it with the terminal tool, for example with sed",
        )

    def _require_absent(self, file: PlannedFile) -> None:
        if file.after is not None or (file.before is None and file.target.exists):
            raise ToolError(
                f"{display_path(file.target.path)} exists already", hint="use `*** Update File:`"
            )

    def changes(self) -> list[FileEdit]:
        made = [file for file in self._files.values() if file.before != file.after]
        if not made:
            raise ToolError("nothing would change")
        # Write before deleting: if a write fails, no file is lost.
        made.sort(key=lambda file: file.after is None)
        return [FileEdit(file.target, file.before, file.after) for file in made]

    def full_diff(self, changes: Sequence[FileEdit]) -> str:
        """Return the complete diff of all changes; "" if one cannot be shown."""
        files = [self._files[change.target.real] for change in changes]
        diffs = [
            full_diff(display_path(each.target.path), each.before, each.after) for each in files
        ]
        return "\n".join(diffs) if all(diffs) else ""

    def summary(self, changes: Sequence[FileEdit]) -> dict[str, Any]:
        """Return `diff` and the paths of the files by what happened to them."""
        named: dict[str, list[str]] = {"modified": [], "created": [], "deleted": []}
        for each in changes:
            kind = (
                "deleted"
                if each.after is None
                else "created"
                if each.before is None
                else "modified"
            )
            named[kind].append(each.target.path)
        return {"diff": self.full_diff(changes), **{f"files_{k}": v for k, v in named.items()}}

    def report(self, changes: Sequence[FileEdit]) -> str:
        """Return for the model what happened to each file, with its diff."""
        parts: list[str] = []
        moved = [file.moved_from for file in self._files.values() if file.moved_from]
        for change in changes:
            file = self._files[change.target.real]
            if file in moved and change.after is None:
                continue  # reported with the file it was moved to
            parts += [
                file.moved_from.warning if file.moved_from else file.warning,
                *_report_file(file),
            ]
        return "\n".join(filter(None, parts))


async def _edit_text(file: PlannedFile, work: Callable[[], bytes]) -> bytes:
    try:
        return await run_sized(len(file.after or b""), work)
    except ToolArgumentsInvalid:
        raise
    except ToolError as error:
        stale = f"; {file.warning}" if file.warning else ""
        raise ToolError(
            f"{display_path(file.target.path)}: {error}{stale}", hint=error.hint
        ) from error


def _report_file(file: PlannedFile) -> list[str]:
    name, base, after = display_path(file.target.path), file.base, file.after
    if after is None:
        return [f"deleted {name}"]
    if file.moved_from:
        head = f"moved {display_path(file.moved_from.target.path)} to {name}"
    else:
        head = f"changed {name}" if base is not None else f"created {name}"
    ignored = f" (found by looking past {file.ignored})" if file.ignored else ""
    diff = unified_diff(base, after) if base is not None else ""
    problem = new_syntax_problem(file.target.real, base, after)
    return [head + ignored, diff, f"[syntax error: {problem}]" if problem else ""]
