"""The protocol: JSON-RPC on standard input and output, and the methods that an editor calls."""

import asyncio
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes import __version__
from hermes.config.home import Home
from hermes.core.errors import (
    CredentialMissing,
    CredentialRefused,
    HermesError,
    SessionNotFound,
    UsageError,
)
from hermes.util import files
from hermes.util.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    JsonRpcConnection,
    JsonRpcMessage,
    RpcError,
    decode,
)

if TYPE_CHECKING:
    from hermes.acp.session import AcpSession
    from hermes.app import App
    from hermes.config.settings import McpServer

log = logging.getLogger(__name__)

VERSION = 1
SOURCE = "acp"  #: The source of the sessions.
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
MAX_LINE = 64 * 2**20  #: Bytes of a message of the editor.
MAX_REQUESTS = 256  #: Requests of the editor at the same time: one prompt for each session.
PAGE = 50  #: Sessions in one answer to `session/list`.
_CURSOR = re.compile(r"\d{1,9}", re.ASCII)
FOLDERS_FILE = "acp-folders.json"
MAX_FOLDERS = 1_000
SESSION_CAPABILITIES = ("list", "resume", "close", "delete", "fork", "additionalDirectories")
COMMANDS_DELAY = 0.05
"""Seconds until the list of commands is sent: after the answer that tells the editor the id."""


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the parameters; unknown fields are ignored."""


class FileCapabilities(_Params, frozen=True):
    read_text_file: bool | None = None
    write_text_file: bool | None = None


class ClientCapabilities(_Params, frozen=True):
    fs: FileCapabilities | None = None
    terminal: bool | None = None
    auth: dict[str, Any] | None = None
    elicitation: dict[str, Any] | None = None

    @property
    def reads(self) -> bool:
        return bool(self.fs and self.fs.read_text_file)

    @property
    def writes(self) -> bool:
        return bool(self.fs and self.fs.write_text_file)


class Initialize(_Params, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class NamedValue(_Params, frozen=True):
    name: str
    value: str


class ClientMcpServer(_Params, frozen=True):
    """A server that the editor names: a program, or an address of `type` http or sse."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str = ""
    headers: tuple[NamedValue, ...] = ()


class OpenSession(_Params, frozen=True):
    cwd: str
    session_id: str = ""
    mcp_servers: tuple[ClientMcpServer, ...] | None = ()
    additional_directories: tuple[str, ...] | None = ()


class SessionParams(_Params, frozen=True):
    session_id: str


class PromptParams(SessionParams, frozen=True):
    prompt: list[Any]


class SetMode(SessionParams, frozen=True):
    mode_id: str


class SetOption(SessionParams, frozen=True):
    config_id: str
    value: str


class SetModel(SessionParams, frozen=True):
    model_id: str


class ListSessions(_Params, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


Handler = Callable[[Any], Awaitable[Any]]
OpenApp = Callable[[], Awaitable["App"]]


class AcpServer:
    """Answers one editor. `open_app` is called for the first session; `write` sends a message
    without blocking."""

    def __init__(self, home: Home, open_app: OpenApp, write: Callable[[bytes], None]) -> None:
        self._open_app, self._write = open_app, write
        self._folders_file = home.cache / FOLDERS_FILE
        self._app: App | None = None
        self._opening = asyncio.Lock()
        self._capabilities = ClientCapabilities()
        self._initialized = False
        self._sessions: dict[str, AcpSession] = {}
        handlers: dict[str, tuple[type[Any], Handler]] = {
            "initialize": (Initialize, self._initialize),
            "authenticate": (dict, self._authenticate),
            "logout": (dict, self._logout),
            "session/new": (OpenSession, self._new),
            "session/load": (OpenSession, self._load),
            "session/resume": (OpenSession, self._resume),
            "session/fork": (OpenSession, self._fork),
            "session/list": (ListSessions, self._list),
            "session/close": (SessionParams, self._close),
            "session/delete": (SessionParams, self._delete),
            "session/prompt": (PromptParams, self._prompt),
            "session/set_mode": (SetMode, self._set_mode),
            "session/set_model": (SetModel, self._set_model),
            "session/set_config_option": (SetOption, self._set_option),
        }
        self._connection: JsonRpcConnection[None] = JsonRpcConnection(
            self._send,
            {name: _checked(kind, handle) for name, (kind, handle) in handlers.items()},
            self._notified,
            cancel_method="$/cancel_request",
            answers_cancelled=True,
            max_incoming=MAX_REQUESTS,
        )

    async def _send(self, data: bytes, _number: int | None) -> None:
        self._write(data + b"\n")

    def receive(self, line: bytes) -> None:
        """Handle a line of the editor. Text that is not a message is answered with an error."""
        for message in decode(line):
            if message.is_answer:
                self._connection.settle(message)
            elif message.method:
                self._connection.dispatch(message)
            else:
                self._refuse(message)

    def _refuse(self, message: JsonRpcMessage) -> None:
        code = PARSE_ERROR if message.id is None else INVALID_REQUEST
        error = {"code": code, "message": "this is not a JSON-RPC message"}
        self._write(
            msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "error": error}) + b"\n"
        )

    async def close(self) -> None:
        """Stop every turn, as the editor is gone. Unfinished turns can be continued later."""
        self._connection.lost(RpcError("the editor closed the connection", INTERNAL_ERROR))
        for session in self._sessions.values():
            if session.busy:
                session.agent.interrupt("the editor closed the connection", by_user=False)
        await self._connection.close()
        for session in tuple(self._sessions.values()):
            await session.close()
        self._sessions.clear()

    # What sessions need of the editor

    def update(self, session_id: str, update: dict[str, Any]) -> None:
        params = {"sessionId": session_id, "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        self._write(msgspec.json.encode(message) + b"\n")

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        return await self._connection.request(method, params)

    @property
    def has_forms(self) -> bool:
        return "form" in (self._capabilities.elicitation or {})

    # Methods of the editor

    async def _initialize(self, params: Initialize) -> dict[str, Any]:
        self._capabilities = params.client_capabilities or ClientCapabilities()
        self._initialized = True
        terminal = bool((self._capabilities.auth or {}).get("terminal"))
        description = "Choose a provider and store its key, in a terminal: hermes setup"
        method = {"id": "setup", "name": "Set up Hermes", "description": description}
        return {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {name: {} for name in SESSION_CAPABILITIES},
            },
            "authMethods": [
                {**method, "type": "terminal", "args": ["setup"]} if terminal else method
            ],
        }

    async def _authenticate(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Check that the model can be used: keys are entered in a terminal, never here."""
        app = await self._get_app()
        await app.providers.main()
        return {}

    async def _logout(self, _params: dict[str, Any]) -> dict[str, Any]:
        raise UsageError("keys are removed in a terminal", hint="hermes auth remove PROVIDER")

    async def _new(self, params: OpenSession) -> dict[str, Any]:
        session = await self._open(params, "")
        return {"sessionId": session.id, **session.state()}

    async def _load(self, params: OpenSession) -> dict[str, Any]:
        session = await self._open(params, await self._stored(params.session_id))
        await session.replay()
        return session.state()

    async def _resume(self, params: OpenSession) -> dict[str, Any]:
        session = await self._open(params, await self._stored(params.session_id))
        return session.state()

    async def _fork(self, params: OpenSession) -> dict[str, Any]:
        from hermes.util.text import new_session_id

        app, old = await self._get_app(), await self._stored(params.session_id)
        new = new_session_id(app.clock.now())
        await app.store.branch(old, new)
        session = await self._open(msgspec.structs.replace(params, session_id=new), new)
        return {"sessionId": session.id, **session.state()}

    async def _list(self, params: ListSessions) -> dict[str, Any]:
        from hermes.store import HIDDEN_SOURCES, SessionFilter

        app, offset = await self._get_app(), 0
        if params.cursor:
            if not _CURSOR.fullmatch(params.cursor):
                raise UsageError("the cursor is not one of this server")
            offset = int(params.cursor)
        wanted = SessionFilter(
            exclude_sources=HIDDEN_SOURCES, has_messages=True, limit=PAGE + 1, offset=offset
        )
        found, folders = await app.store.sessions(wanted), self._folders()
        sessions = [
            {
                "sessionId": each.id,
                "cwd": folders.get(each.id) or str(Path.cwd()),
                "title": each.title or each.preview[:100],
                "updatedAt": datetime.fromtimestamp(each.last_active, UTC).isoformat(),
            }
            for each in found[:PAGE]
            if params.cwd in (None, folders.get(each.id))
        ]
        more = {"nextCursor": str(offset + PAGE)} if len(found) > PAGE else {}
        return {"sessions": sessions, **more}

    async def _close(self, params: SessionParams) -> dict[str, Any]:
        if session := self._sessions.pop(params.session_id, None):
            await session.close()
        return {}

    async def _delete(self, params: SessionParams) -> dict[str, Any]:
        stored = await self._stored(params.session_id)
        if session := self._sessions.pop(params.session_id, None):
            await session.close()
        app = await self._get_app()
        await app.store.delete(stored)
        return {}

    async def _prompt(self, params: PromptParams) -> dict[str, Any]:
        return await self._session(params.session_id).prompt(params.prompt)

    async def _set_mode(self, params: SetMode) -> dict[str, Any]:
        await self._session(params.session_id).set_mode(params.mode_id)
        return {}

    async def _set_model(self, params: SetModel) -> dict[str, Any]:
        await self._session(params.session_id).set_option("model", params.model_id)
        return {}

    async def _set_option(self, params: SetOption) -> dict[str, Any]:
        session = self._session(params.session_id)
        await session.set_option(params.config_id, params.value)
        return {"configOptions": session.options()}

    def _notified(self, method: str, params: Any) -> None:
        if method == "session/cancel" and (
            session := self._sessions.get(str(params.get("sessionId", "")))
        ):
            session.cancel()

    # Sessions

    def _session(self, session_id: str) -> "AcpSession":
        try:
            return self._sessions[session_id]
        except KeyError:
            text = f"the session {session_id[:100]!r} is not open; load it or start a new one"
            raise RpcError(text, RESOURCE_NOT_FOUND) from None

    async def _stored(self, session_id: str) -> str:
        """Return the id of the stored session that continues `session_id`."""
        from hermes.app import latest_session

        app = await self._get_app()
        if (session := self._sessions.get(session_id)) is not None:
            return session.agent.session_id
        return await latest_session(app.store, session_id)

    async def _open(self, params: OpenSession, stored: str) -> "AcpSession":
        """Open the stored session, or a new one for ""."""
        import math

        from hermes.acp.editor import EditorFiles, EditorShell
        from hermes.acp.session import AcpSession, EditorQuestions, working_folder
        from hermes.app import SessionRequest
        from hermes.terminal import ExecutionEnvironment
        from hermes.tools import selected_toolsets

        folder = working_folder(params.cwd)
        more = [working_folder(each) for each in params.additional_directories or ()]
        app = await self._get_app()
        questions = EditorQuestions(self, params.session_id)
        can, in_editor = self._capabilities, app.loaded.settings.acp.terminal == "editor"

        def adapt(place: ExecutionEnvironment) -> ExecutionEnvironment:
            if place.name != "local":
                return place
            files, shell = place.files, place.shell
            if can.reads or can.writes:
                files = EditorFiles(files, self, questions, reads=can.reads, writes=can.writes)
            if can.terminal and in_editor:
                shell = EditorShell(shell, self, questions)
            return msgspec.structs.replace(place, files=files, shell=shell)

        request = SessionRequest(
            working_folder=folder,
            resume=stored,
            source=SOURCE,
            approver=questions,
            clarifier=questions if self.has_forms else None,
            # The toolset for editors has no questions, because most cannot ask them.
            toolsets=(*selected_toolsets(app.loaded.settings, SOURCE), "clarify")
            if self.has_forms
            else (),
            permission_mode=app.loaded.settings.approvals.permission_mode,
            patience=math.inf,
            mcp_servers=_mcp_settings(params.mcp_servers or ()),
            adapt_workplace=adapt,
        )
        old = self._sessions.pop(params.session_id, None) if stored else None
        if old is not None:
            await old.close()
        agent = await app.agent(request)
        session_id = params.session_id if stored else agent.session_id
        questions.session_id = session_id
        session = AcpSession(session_id, app, self, questions)
        session.attach(agent)
        for each in more:
            await app.session(agent).add_folder(each)
        if stored:
            session.cost_usd = (await app.store.info(stored)).cost_usd
        self._sessions[session_id] = session
        self._remember_folder(session_id, str(folder))
        asyncio.get_running_loop().call_later(COMMANDS_DELAY, self._send_commands, session_id)
        return session

    def _send_commands(self, session_id: str) -> None:
        if session := self._sessions.get(session_id):
            session.send_commands()

    async def _get_app(self) -> "App":
        if not self._initialized:
            raise RpcError("initialize comes first", INVALID_REQUEST)
        async with self._opening:
            if self._app is None:
                self._app = await self._open_app()
            return self._app

    # The folder of each session, which the editor wants to know for its list

    def _folders(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._folders_file.read_bytes(), type=dict[str, str])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def _remember_folder(self, session_id: str, folder: str) -> None:
        known = self._folders()
        if known.get(session_id) == folder:
            return
        known.pop(session_id, None)
        kept = dict([*known.items(), (session_id, folder)][-MAX_FOLDERS:])
        try:
            self._folders_file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(self._folders_file, msgspec.json.encode(kept))
        except OSError as error:
            log.warning("the folder of a session was not stored: %s", error)


def _checked(kind: type[Any], handle: Handler) -> Callable[[dict[str, Any], Any], Awaitable[Any]]:
    """Return a handler that converts the parameters, and errors to those of the protocol."""

    async def answer(params: dict[str, Any], _origin: Any) -> Any:
        given = params if kind is dict else msgspec.convert(params, kind)
        try:
            return await handle(given)
        except (CredentialMissing, CredentialRefused) as error:
            raise RpcError(_text(error), AUTH_REQUIRED) from None
        except SessionNotFound as error:
            raise RpcError(_text(error), RESOURCE_NOT_FOUND) from None
        except UsageError as error:
            raise RpcError(_text(error), INVALID_PARAMS) from None
        except HermesError as error:
            raise RpcError(_text(error), INTERNAL_ERROR) from None
        except RpcError:
            raise
        except Exception as error:  # a defect of ours: the editor gets an answer all the same
            log.exception("a request of the editor failed")
            raise RpcError(f"internal error: {error}", INTERNAL_ERROR) from None

    return answer


def _text(error: HermesError) -> str:
    return f"{error}\n{error.hint}" if error.hint else str(error)


def _mcp_settings(servers: tuple[ClientMcpServer, ...]) -> dict[str, "McpServer"]:
    from hermes.config.settings import McpServer

    found: dict[str, McpServer] = {}
    for each in servers:
        if each.url:
            headers = {header.name: header.value for header in each.headers}
            http = McpServer(url=each.url, headers=headers, transport="http")
            is_sse = each.type == "sse"
            found[each.name] = msgspec.structs.replace(http, transport="sse") if is_sse else http
        elif each.command:
            env = {variable.name: variable.value for variable in each.env}
            found[each.name] = McpServer(command=each.command, args=each.args, env=env)
        else:
            raise UsageError(f"the MCP server {each.name[:50]!r} has neither command nor url")
    return found


# Standard input and output


class _Writer:
    """Writes in a thread of its own, so that a slow editor does not block the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: list[bytes] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="acp-writer", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        with self._changed:
            self._waiting.append(data)
            self._changed.notify()

    def close(self) -> None:
        """Write what is left, for at most a second."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                data, self._waiting = b"".join(self._waiting), []
                if not data and self._closed:
                    return
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError:  # the editor is gone; reading ends as well
                return


@asynccontextmanager
async def _lines() -> AsyncIterator["asyncio.Queue[bytes | None]"]:
    """Read standard input in a thread, because it may be a file. None is its end."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes | None](maxsize=0)

    def put(line: bytes | None) -> bool:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, line)
        except RuntimeError:  # the loop has ended
            return False
        return True

    def read() -> None:
        with open(0, "rb", closefd=False) as stdin:
            while line := stdin.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE and not line.endswith(b"\n"):
                    line = b"{too long"
                    while (rest := stdin.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                        continue
                if not put(line):
                    return
        put(None)

    threading.Thread(target=read, name="acp-reader", daemon=True).start()
    yield queue


async def serve_stdio(home: Home, open_app: OpenApp) -> None:
    """Serve the editor until standard input ends. Standard output has the protocol only: what
    other code prints goes to standard error."""
    sys.stdout.flush()
    writer = _Writer(os.dup(1))
    os.dup2(2, 1)
    server = AcpServer(home, open_app, writer.write)
    try:
        async with _lines() as lines:
            while (line := await lines.get()) is not None:
                server.receive(line)
    finally:
        await server.close()
        writer.close()
