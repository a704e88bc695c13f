"""A connection to Slack, while it lasts."""

import logging

import aiohttp

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    NotConnected,
    Receive,
    SendRefused,
)
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.seen import Seen
from hermes.gateway.platforms.slack.failures import (
    TROUBLE,
    code_of,
    of_call,
    of_connecting,
    retry_after,
)
from hermes.gateway.platforms.slack.ids import SCALE
from hermes.gateway.platforms.slack.intake import Intake
from hermes.gateway.platforms.slack.options import Options, check
from hermes.gateway.platforms.slack.uploads import Uploads
from hermes.gateway.platforms.slack.workspace import Workspace, client_of

logger = logging.getLogger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
NO_STATUS = frozenset(
    {"missing_scope", "unknown_method", "not_allowed_token_type", "access_denied"}
)
"""Why people of a workspace never see that we write."""


class Live(Connection):
    session: aiohttp.ClientSession
    seen: Seen[str]
    uploads: Uploads
    intake: Intake
    workspaces: list[Workspace]
    """Those that let us in; the one of the first token is home."""

    def __init__(
        self, context: AdapterContext, receive: Receive, options: Options, clock: Clock
    ) -> None:
        super().__init__(context, receive)
        check(options)
        self.identities = (options.app_token, *options.tokens)
        self._options, self._clock = options, clock
        self.began = clock.monotonic()
        self.broken: dict[str, float] = {}
        """When the sending of a message broke off, by its key."""
        self.writing: dict[str, str] = {}
        """Chats in which people see that we write, and at which message."""
        self._quiet: set[str] = set()

    async def open(self) -> None:
        options, clock = self._options, self._clock
        self.session = await self.ends.enter_async_context(
            aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())
        )
        entered = [
            Workspace(client_of(token, options.base_url, self.session), home=number == 0)
            for number, token in enumerate(options.tokens)
        ]
        self.workspaces = await self._let_in(entered)
        self.uploads = Uploads(self.context.state / "uploads.json", self.session, options, clock)
        self.seen = self.remember(SCALE)
        self.intake = Intake(self.workspaces, options, self.seen, self.receive, clock)
        self.ends.push_async_callback(self.intake.close)
        await self.intake.socket.open(options, self.session)
        self.began = clock.monotonic()

    async def ask(self) -> None:
        await self._let_in(self.workspaces)
        if not await self.intake.socket.is_up():
            raise NotConnected("the connection to Slack is broken")

    def workspace(self, team: str) -> Workspace:
        """By its id; "" is home."""
        for workspace in self.workspaces:
            if team in (workspace.team, workspace.prefix):
                return workspace
        if team:
            raise SendRefused(f"we are not in the workspace {team} of Slack")
        raise NotConnected("the home workspace of Slack does not let us in")

    async def set_status(self, workspace: Workspace, channel: str, ts: str, status: str) -> None:
        if workspace.team in self._quiet:
            return
        try:
            await workspace.client.assistant_threads_setStatus(
                channel_id=channel, thread_ts=ts, status=status
            )
        except TROUBLE as error:
            if code_of(error) not in NO_STATUS:
                raise of_call(error) from error
            logger.info("people on Slack do not see that we write: %s", code_of(error))
            self._quiet.add(workspace.team)

    async def _let_in(self, workspaces: list[Workspace]) -> list[Workspace]:
        """Those that we can enter. Raises when there is none, or one cannot be asked."""
        entered: list[Workspace] = []
        refused: list[AdapterError] = []
        for workspace in workspaces:
            try:
                await workspace.enter()
            except TROUBLE as error:
                if workspace.team and retry_after(error) is not None:
                    entered.append(workspace)  # it is there, and that is what we ask
                    continue
                refused.append(of_connecting(error))
                if not isinstance(refused[-1], CredentialsRefused):
                    raise refused[-1] from error
            else:
                entered.append(workspace)
        if not entered:
            raise refused[0]
        for each in refused:
            logger.error("a workspace of Slack is left out: %s", each)
        return entered
