"""The API server as a platform of the gateway."""

import asyncio
import contextlib
import gc
import logging
import secrets

import h11
import msgspec
from starlette.applications import Starlette

from hermes.app import App
from hermes.config.home import tilde
from hermes.config.loader import describe
from hermes.core.errors import HermesError
from hermes.gateway.platforms.api_server.app import SECURITY_HEADERS, ServerEndpoints, create_app
from hermes.gateway.platforms.api_server.chat import ChatCompletions
from hermes.gateway.platforms.api_server.http import (
    CLOSE,
    JSON,
    KEY_VARIABLE,
    NEW_KEY,
    ApiOptions,
    IdempotencyCache,
    bad_request,
    read_options,
)
from hermes.gateway.platforms.api_server.responses import ResponsesEndpoint
from hermes.gateway.platforms.api_server.runs import JobsEndpoint, RunsEndpoint
from hermes.gateway.platforms.api_server.turns import ApiTurns
from hermes.sdk.platforms import (
    Adapter,
    AdapterContext,
    ChatTarget,
    CredentialsRefused,
    HttpServer,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendRefused,
    TimeLimitedProtocol,
)
from hermes.util.files import allow_many_open_files
from hermes.util.http import http_address

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
MAX_HEAD_BYTES = 65536
DRAIN_SECONDS = 10  #: For responses in progress, after the turns have ended.


class _Protocol(TimeLimitedProtocol):
    def send_400_response(self, _msg: str) -> None:
        """Answer a request that is not valid HTTP in the usual error format."""
        error = bad_request("this is not a valid HTTP request", code="invalid_http")
        body = msgspec.json.encode(error.body)
        length = ("Content-Length", str(len(body)))
        headers = [("Content-Type", JSON), length, *(SECURITY_HEADERS | CLOSE).items()]
        with contextlib.suppress(h11.LocalProtocolError):  # another response is being sent
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class ApiServer(Adapter):
    """Serves `context.extra["app"]`, without inbox and outbox: the client waits for the answer."""

    def __init__(self, context: AdapterContext, options: ApiOptions | None = None) -> None:
        """`options` replaces those of the settings and variables."""
        super().__init__(context)
        self._options = options
        self._app: App = context.extra["app"]
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._turns: ApiTurns | None = None
        self._idempotency = IdempotencyCache(self._app.clock)
        self._is_draining = False  #: While draining, it is correct that /health does not answer.
        self.port = 0  #: The port it listens on, once connected.

    async def connect(self, receive: Receive) -> None:
        """Start the server and return when /health answers; `receive` is not used."""
        del receive
        if self._options is None:
            self._options = await asyncio.to_thread(self._read_options)
        options = self._options
        self._is_draining = False
        allow_many_open_files()
        turns, app = self._create_app(options)
        self._turns = turns
        times = {"head_seconds": options.head_seconds, "send_seconds": options.send_seconds}
        server = HttpServer(
            app,
            options.host,
            options.port,
            label="API server",
            hint="another program may use the port; API_SERVER_PORT takes another one",
            protocol=type("Protocol", (_Protocol,), times),
            drain_seconds=DRAIN_SECONDS,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        self._server, self._serving = server, asyncio.create_task(server.serve())
        self.port = server.port
        self.address = http_address(options.host, self.port)
        await self.probe()
        # Exclude the objects that exist now from garbage collection: scanning them takes a tenth of
        # the cost of a new session.
        gc.freeze()

    def _create_app(self, options: ApiOptions) -> tuple[ApiTurns, Starlette]:
        extra, app, name = self.context.extra, self._app, options.model_name

        def now() -> float:
            return app.clock.now().timestamp()

        turns = ApiTurns(
            app,
            options,
            extra.get("backend", ""),
            extra.get("count_turn"),
            hooks=extra.get("hooks"),
            leases=extra.get("leases"),
        )
        endpoints = (
            ServerEndpoints(turns, app.clock, name, extra.get("status"), extra.get("metrics")),
            ChatCompletions(turns, name, now),
            ResponsesEndpoint(turns, app.store, name, now),
            RunsEndpoint(turns),
            JobsEndpoint(extra.get("scheduler"), turns.backend),
        )
        return turns, create_app(options, endpoints, self._idempotency)

    def _read_options(self) -> ApiOptions:
        context = self.context
        for problem in self._app.loaded.problems:
            if problem.parts[:2] == ("platforms", context.manifest.name):
                log.warning("%s", describe(problem))
        options = read_options(context.variable, context.connection, context.unset)
        if options.key:
            return options
        self.access_hint = (
            f"clients send the key: {KEY_VARIABLE} in {tilde(self._app.home.env_file)}"
        )
        return msgspec.structs.replace(options, key=self._create_key())

    def _create_key(self) -> str:
        """Generate a key and store it in .env. Raises `CredentialsRefused`."""
        from hermes.config import edit  # a slow YAML library, needed only for the first start

        app, key = self._app, secrets.token_hex(24)
        try:
            edit.set_variable(app.home, KEY_VARIABLE, key)
        except HermesError as error:
            raise CredentialsRefused(
                f"the API server has no key, and none can be stored: {error}",
                hint=f"set {KEY_VARIABLE} ({NEW_KEY})",
            ) from error
        app.loaded.remember(KEY_VARIABLE, key)
        app.redactor.learn(key)
        log.info("a key for the API server was generated: %s in .env", KEY_VARIABLE)
        return key

    async def drain(self, seconds: float) -> None:
        self._is_draining = True
        if self._server is not None and self._turns is not None:
            self._server.stop_accepting()
            await self._turns.drain(seconds)

    async def disconnect(self) -> None:
        """Let turns finish for `gateway.drain_seconds`, then stop them and inform their clients."""
        server, serving, turns = self._server, self._serving, self._turns
        self._server = self._serving = self._turns = None
        if server is None or serving is None or turns is None:
            return
        gc.unfreeze()
        server.stop_accepting()
        await turns.drain(self._app.loaded.settings.gateway.drain_seconds)
        await server.close(serving)
        await self._idempotency.close()
        await turns.close()

    async def probe(self) -> None:
        if self._is_draining:
            return
        if self._server is None or self._serving is None or self._serving.done():
            raise NotConnected("the API server does not run")
        await self._server.check_health()

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        del message, key
        raise SendRefused(f"{target.platform} has no chats to send to")
