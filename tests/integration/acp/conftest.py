"""`hermes acp` as a process, driven by the client of the protocol's Python SDK."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    FileSystemCapabilities,
    KillTerminalResponse,
    ReleaseTerminalResponse,
    TerminalExitStatus,
)

from hermes.core.testing import ModelServer
from tests.screens.chat import HERMES

SETTINGS = """\
model: {{provider: custom, base_url: "{url}/v1", default: lab-model, api_key: k}}
sessions: {{auto_title: false}}
"""


class Editor(acp.Client):
    """Records what the agent sends, and answers as a test says."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.questions: list[Any] = []
        self.answer = "once"  #: The option chosen for a permission; "" cancels.
        self.buffers: dict[str, str] = {}  #: Files with unsaved changes.
        self.terminals: dict[str, Any] = {}
        self.released: list[str] = []
        self.forms: list[str] = []
        self.form_answer = ""
        self.agent: Any = None
        self.process: Any = None

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **_more: Any
    ) -> acp.RequestPermissionResponse:
        self.questions.append((tool_call, options))
        if not self.answer:
            return acp.RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self.answer)
        return acp.RequestPermissionResponse(outcome=chosen)

    async def read_text_file(self, path: str, session_id: str, **_more: Any) -> Any:
        if path not in self.buffers:
            raise acp.RequestError.resource_not_found(path)
        return acp.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, content: str, path: str, session_id: str, **_more: Any) -> Any:
        self.buffers[path] = content
        return acp.WriteTextFileResponse()

    async def create_elicitation(self, message: str, **_more: Any) -> Any:
        self.forms.append(message)
        return AcceptElicitationResponse(action="accept", content={"answer": self.form_answer})

    async def create_terminal(self, command: str, session_id: str, **more: Any) -> Any:
        process = await asyncio.create_subprocess_exec(
            command,
            *(more["args"] or ()),
            cwd=more["cwd"],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self.terminals[name := f"t{len(self.terminals) + 1}"] = process
        return acp.CreateTerminalResponse(terminal_id=name)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        await self.terminals[terminal_id].wait()
        return acp.WaitForTerminalExitResponse()

    async def terminal_output(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        process = self.terminals[terminal_id]
        output = (await process.stdout.read()).decode()
        status = TerminalExitStatus(exit_code=process.returncode)
        return acp.TerminalOutputResponse(output=output, truncated=False, exit_status=status)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        os.killpg(self.terminals[terminal_id].pid, signal.SIGKILL)
        return KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        self.released.append(terminal_id)
        return ReleaseTerminalResponse()

    def of(self, kind: str, session_id: str = "") -> list[Any]:
        """The updates of a kind, such as `plan`."""
        return [
            update
            for session, update in self.updates
            if update.session_update == kind and session_id in ("", session)
        ]

    def text(self, kind: str = "agent_message_chunk", session_id: str = "") -> str:
        return "".join(update.content.text for update in self.of(kind, session_id))


Start = Callable[..., Any]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def editor(work: Path, hermes_home: Path) -> AsyncIterator[Start]:
    """Starts the agent for a scripted model: `async with editor(server) as e`."""

    @asynccontextmanager
    async def start(
        server: ModelServer, *, settings: str = "", fs: bool = False, forms: bool = False
    ) -> AsyncIterator:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(SETTINGS.format(url=server.url) + settings)
        editor = Editor()
        async with AsyncExitStack() as stack:
            spawned = acp.spawn_agent_process(
                editor,
                HERMES[0],
                *HERMES[1:],
                "acp",
                env=dict(os.environ),
                cwd=work,
                use_unstable_protocol=True,
            )
            editor.agent, editor.process = await stack.enter_async_context(spawned)
            files = FileSystemCapabilities(read_text_file=fs, write_text_file=fs)
            form = ElicitationCapabilities(form=ElicitationFormCapabilities()) if forms else None
            capabilities = ClientCapabilities(fs=files, terminal=fs, elicitation=form)
            await editor.agent.initialize(protocol_version=1, client_capabilities=capabilities)
            yield editor

    yield start
