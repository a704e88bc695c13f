"""Files and commands of a session whose editor offers its own."""

import asyncio
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.terminal import (
    CommandResult,
    FileInfo,
    Files,
    GrepQuery,
    GrepResult,
    Running,
    Shell,
    Sink,
    TextPage,
)
from hermes.util.jsonrpc import RpcError

if TYPE_CHECKING:
    from hermes.acp.session import Client, EditorQuestions


class EditorFiles:
    """`Files` of this machine. The text of an existing file comes from the editor, which knows
    changes that are not saved yet, and is written through it. Where the editor fails, or a file is
    not text, the file system is used."""

    def __init__(
        self, local: Files, client: "Client", asker: "EditorQuestions", *, reads: bool, writes: bool
    ) -> None:
        self._local, self._client, self._asker = local, client, asker
        self._reads, self._writes = reads, writes

    async def locate(self, path: str) -> str:
        return await self._local.locate(path)

    async def stat(self, path: str) -> FileInfo | None:
        return await self._local.stat(path)

    async def names(self, folder: str) -> list[str]:
        return await self._local.names(folder)

    async def lines(self, path: str, *, offset: int, limit: int, longest: int) -> TextPage:
        page = await self._local.lines(path, offset=offset, limit=limit, longest=longest)
        text = None if page.binary else await self._read_text(path)
        if text is None:
            return page
        rows = text.removesuffix("\n").split("\n") if text else []
        shown = tuple(
            row.removesuffix("\r")[:longest] for row in rows[offset - 1 : offset - 1 + limit]
        )
        return TextPage(shown, len(rows), crlf="\r\n" in text)

    async def read(self, path: str, *, most: int) -> bytes:
        data = await self._local.read(path, most=most)
        try:
            data.decode()
        except UnicodeDecodeError:
            return data
        text = await self._read_text(path)
        return data if text is None else text.encode()

    async def write(self, path: str, data: bytes) -> None:
        """The file system is written first: it keeps permissions and refuses links. The editor
        then takes the same text into an open file."""
        await self._local.write(path, data)
        if not self._writes:
            return
        try:
            text = data.decode()
            params = {"sessionId": self._asker.session_id, "path": path, "content": text}
            await self._client.request("fs/write_text_file", params)
        except (RpcError, UnicodeDecodeError):
            return

    async def remove(self, path: str) -> None:
        await self._local.remove(path)

    async def find(self, glob: str, folder: str, cancel: CancelToken) -> list[str]:
        return await self._local.find(glob, folder, cancel)

    async def grep(self, query: GrepQuery, cancel: CancelToken) -> GrepResult:
        return await self._local.grep(query, cancel)

    async def _read_text(self, path: str) -> str | None:
        if not self._reads:
            return None
        try:
            params = {"sessionId": self._asker.session_id, "path": path}
            result = await self._client.request("fs/read_text_file", params)
        except RpcError:
            return None
        text = result.get("content") if isinstance(result, dict) else None
        return text if isinstance(text, str) else None


OUTPUT_BYTES = 50_000
TIMED_OUT = 124


class EditorShell:
    """A `Shell` whose commands run in terminals of the editor, where the user sees them.

    They have the variables and rights of the editor. Background processes run in `local`.
    """

    def __init__(self, local: Shell, client: "Client", asker: "EditorQuestions") -> None:
        self._local, self._client, self._asker = local, client, asker
        self._cwd = ""

    @property
    def cwd(self) -> str:
        return self._cwd or self._local.cwd

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        on_output: Callable[[str], None],
        cancel: CancelToken,
    ) -> CommandResult:
        with tempfile.TemporaryDirectory(prefix="hermes-acp-") as folder:
            mark = Path(folder, "cwd")
            # The folder persists between commands, as in a shell of Hermes.
            script = f"{command}\n_code=$?\npwd > {shlex.quote(str(mark))}\nexit $_code"
            terminal = await self._request(
                "create",
                command="bash",
                args=["-c", script],
                cwd=cwd or self.cwd,
                outputByteLimit=OUTPUT_BYTES,
            )
            name = str(terminal.get("terminalId", ""))
            self._asker.show_terminal(command, name)
            try:
                timed_out = await self._wait(name, timeout, cancel)
                shown = await self._request("output", terminalId=name)
            finally:
                await self._request("release", terminalId=name)
            if cwd is None and mark.exists():
                self._cwd = mark.read_text().strip()
        status = shown.get("exitStatus")
        code = status.get("exitCode") if isinstance(status, dict) else None
        text = str(shown.get("output", ""))
        on_output(text)
        failed = TIMED_OUT if timed_out else 1
        truncated = bool(shown.get("truncated"))
        return CommandResult(code if isinstance(code, int) else failed, text, timed_out, truncated)

    async def _wait(self, name: str, timeout: float, cancel: CancelToken) -> bool:
        """Wait for the end of the command, or stop it. Return whether the time was over."""
        try:
            with cancel.scope():
                async with asyncio.timeout(timeout):
                    await self._request("wait_for_exit", terminalId=name)
        except TimeoutError:
            await self._request("kill", terminalId=name)
            return True
        except BaseException:
            await self._request("kill", terminalId=name)
            raise
        return False

    async def _request(self, method: str, **params: Any) -> dict[str, Any]:
        params["sessionId"] = self._asker.session_id
        try:
            result = await self._client.request(f"terminal/{method}", params)
        except RpcError as error:
            raise ToolError(f"the terminal of the editor failed: {error}") from None
        return result if isinstance(result, dict) else {}

    async def start(
        self, command: str, *, cwd: str | None = None, on_output: Sink, pty: bool = False
    ) -> Running:
        return await self._local.start(
            command, cwd=cwd or self._cwd or None, on_output=on_output, pty=pty
        )

    async def close(self) -> None:
        await self._local.close()
