"""Runs a gateway: builds its parts, connects the platforms, and closes everything in order."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hermes.app.app import App
from hermes.app.providers import user_zone
from hermes.app.request import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.ports import Attachments, Clock, Outbox, Scheduler
from hermes.gateway.auth import Authorizer
from hermes.gateway.chat_session import ChatSessions, MirrorToChat, ResetPolicy
from hermes.gateway.commands import pair_command
from hermes.gateway.context import GatewayContext
from hermes.gateway.directory import ChatDirectory, TargetResolver
from hermes.gateway.dispatcher import ChatDispatcher, InboundHandler, drain_all
from hermes.gateway.hooks import HookRegistry, about
from hermes.gateway.maintenance import Maintenance
from hermes.gateway.outbox import GatewayOutbox
from hermes.gateway.pairing import PairingStore
from hermes.gateway.platforms.kit.contract import ChatTarget, PlatformManifest, SessionSource
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.gateway.platforms.registry import (
    chat_backend,
    configured,
    half_given,
    make_adapter,
    media_folder,
    prefixes,
    unknown,
    without_sandbox,
)
from hermes.gateway.process import AdapterState
from hermes.gateway.proxy import Proxy, check_proxy, load_proxy
from hermes.gateway.services import RESTART
from hermes.gateway.status import DirectTurns, Metrics, StatusReporter, serve_metrics
from hermes.gateway.supervisor import ConnectionRegistry, Health, PlatformAccount, Supervisor
from hermes.util.concurrency import in_thread
from hermes.util.text import many

log = logging.getLogger(__name__)

SILENT = "[SILENT]"
BOOT_PROMPT = (
    "The gateway has just started. Do what BOOT.md says; answer {silent} when nobody needs to"
    " know.\n\n{text}"
)


class BootTask:
    def __init__(
        self,
        app: App,
        gateway: GatewayContext,
        file: Path,
        homes: dict[str, ChatTarget],
        proxy: Proxy | None = None,
    ) -> None:
        self._app, self._gateway, self._file, self._describe_homes = app, gateway, file, homes
        self._proxy = proxy

    async def run(self) -> None:
        """Run BOOT.md. Errors are logged; the gateway starts anyway."""
        try:
            text = self._file.read_text(encoding="utf-8").strip()
            if text:
                await self._answer(text)
        except (HermesError, OSError, UnicodeDecodeError) as error:
            log.error("BOOT.md: %s", error)

    async def _answer(self, text: str) -> None:
        folder = Path(self._app.loaded.settings.gateway.cwd).expanduser()
        request = SessionRequest(folder, source="cron", goes_on=False, skip_context_files=True)
        agent = await self._app.agent(self._proxy.request(request) if self._proxy else request)
        try:
            asked = User.say(BOOT_PROMPT.format(silent=SILENT, text=text))
            async with aclosing(agent.run(asked)) as events:
                async for event in events:
                    if isinstance(event, TurnFinished):
                        attachments = self._app.session(agent).attachments
                        await self._warn(event.text or event.error, attachments)
        finally:
            await self._app.leave(agent)

    async def _warn(self, answer: str, attachments: Attachments) -> None:
        log.info("BOOT.md: %s", answer)
        if answer.strip() and not answer.lstrip().startswith(SILENT):
            for target in self._describe_homes.values():
                await self._gateway.outbox.notify(target, answer, "notice", attachments=attachments)


RESTART_NOTICE = "The gateway is restarting. This turn continues when it is back."
RETRY_SECONDS = 1.0
"""Seconds before a failed part is started again."""
MAX_SETTLE_TRIES = 3
SETTLE_SECONDS = 10.0
"""Seconds that a platform has to report on uncertain deliveries before work starts there."""
FLUSH_SECONDS = 3.0
"""Seconds for sending the last messages at shutdown."""


class CronSupport(Protocol):
    """Scheduled jobs, passed in by the program that starts the gateway."""

    def scheduler(self, app: App, outbox: Outbox) -> Scheduler: ...

    async def run(self, app: App, outbox: Outbox, stop: asyncio.Event) -> None:
        """Run due jobs until `stop` is set. Running jobs are left in a state from which they can
        continue."""
        ...

    async def is_needed(self, app: App) -> bool:
        """Return whether there is a job that may run."""
        ...

    def told(self) -> str:
        """Describe the state of the jobs in a few words; "" if there is nothing to say."""
        ...


def start_gateway(
    home: Home,
    loaded: Loaded,
    *,
    quiet: bool = False,
    note: Callable[[str], None] = print,
    scheduling: CronSupport | None = None,
) -> int:
    """Run the gateway of a home until a signal arrives. Returns the exit code."""
    runner = GatewayRunner(home, loaded, note=note, quiet=quiet, scheduling=scheduling)
    return asyncio.run(runner.run())


class _LogProgress:
    """Implements `providers.local.progress.Progress` by logging: no user watches the download."""

    def report(self, label: str, done: int, total: int) -> None:
        log.debug("%s: %d of %d", label, done, total)

    def say(self, text: str) -> None:
        log.info("%s", text)


class GatewayRunner:
    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        *,
        note: Callable[[str], None],
        quiet: bool = False,
        scheduling: CronSupport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._home, self._loaded, self._note = home, loaded, note
        self._quiet, self._scheduling, self._clock = quiet, scheduling, clock
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self.began = asyncio.Event()
        """Set when everything is built and the platforms are being connected."""
        self._exit_code = 0
        self._proxy: Proxy | None = None
        self._supervisors: list[Supervisor] = []
        self._unavailable: list[AdapterState] = []
        self._side_tasks: set[asyncio.Task[None]] = set()

    def stop(self, exit_code: int = 0) -> None:
        """Stop the gateway; a second call does not wait for running turns."""
        if self._stop.is_set():
            self._hurry.set()
        self._exit_code = exit_code
        self._stop.set()

    async def run(self) -> int:
        self._proxy = load_proxy(self._loaded)
        app = App(self._home, self._loaded, _LogProgress(), self._warn, clock=self._clock)
        async with app:
            await app.extensions.settle()
            platforms = configured(self._loaded)
            for name, why in unknown(self._loaded).items():
                self._skip_platform(name, why, "failed")
            for manifest, why in half_given(self._loaded):
                self._skip_platform(manifest.name, why, "incomplete")
            if not platforms:
                await _require_jobs(app, self._scheduling)
                self._inform("no platform is set up: only scheduled jobs run")
            with _signals(self.stop):
                await self._serve(app, platforms)
        return self._exit_code

    async def _serve(self, app: App, platforms: dict[str, PlatformManifest]) -> None:
        self._build(app, platforms)
        background = [
            asyncio.create_task(_run_forever(work, app.clock))
            for work in (
                self.outbox.run,
                self.gateway.renew_leases,
                self.maintenance.run,
                self._status.run,
            )
        ]
        stopping = asyncio.Event()
        if self._scheduling is not None:
            jobs = partial(self._scheduling.run, app, self.outbox, stopping)
            background.append(asyncio.create_task(_run_forever(jobs, app.clock)))
        settings = self._loaded.settings
        try:
            served = serve_metrics(settings.gateway.metrics_port, self._status.metrics)
            async with served as unserved:
                unsafe = "" if self._proxy else await in_thread(without_sandbox, settings)
                for trouble in filter(None, (unserved, unsafe)):
                    self._warn(trouble)
                    self._status.troubles.append(trouble)
                self._connect(app, platforms)
                self._status.set_state("running")
                if self._proxy is not None:
                    self._start(check_proxy(self._proxy, app.providers.client, self._warn))
                await self.hooks.fire("gateway:startup", platforms=sorted(platforms))
                await self.gateway.updates.report()
                self._boot(app)
                self.began.set()
                await self._stop.wait()
        finally:
            stopping.set()
            await self._close(background)

    def _build(self, app: App, platforms: dict[str, PlatformManifest]) -> None:
        settings, clock, store = self._loaded.settings, app.clock, app.store
        self.directory = ChatDirectory(self._home.root / "channel_directory.json")
        self.connections = ConnectionRegistry(clock)
        self.targets = TargetResolver(
            platforms, self._loaded.variable, self.directory, self.connections
        )
        self.outbox = GatewayOutbox(
            store.outbox,
            self.targets,
            clock,
            self.connections,
            human_delay=settings.human_delay,
            mirror=MirrorToChat(
                store, lambda key: self.gateway.wake_chat(key), lambda: clock.now().timestamp()
            ),
        )
        app.services.outbox = self.outbox
        if self._scheduling is not None:
            app.services.scheduler = self._scheduling.scheduler(app, self.outbox)
        pairing = PairingStore(self._home.root / "pairing", clock)
        trusted: dict[str, Role] = {
            name: "member" for name, each in platforms.items() if each.checks_callers
        }
        authorizer = Authorizer(
            settings, self._loaded.variable, pairing, prefixes(platforms), trusted=trusted
        )
        sessions = ChatSessions(
            app, chat_backend(settings), self._describe_homes, platforms, self._proxy
        )
        self.hooks = HookRegistry.load(self._home.hooks, self._warn)
        self.metrics = Metrics()
        resets = ResetPolicy.read(settings.session_reset, self._home.root, user_zone(settings))
        self.gateway = GatewayContext(
            app,
            self.connections,
            self.outbox,
            sessions,
            authorizer,
            resets,
            self.hooks,
            self.metrics,
            platforms,
        )
        self.dispatcher = ChatDispatcher(self.gateway)
        self.inbound = InboundHandler(
            settings, self.gateway, self.dispatcher, authorizer, self.directory, self.metrics, clock
        )
        cache = MediaCache(media_folder(self._home.root))
        self.maintenance = Maintenance(self.gateway, self.dispatcher, self.directory, cache)
        self._direct = DirectTurns(self.metrics, clock)
        self._status = StatusReporter(
            self._home.root,
            app,
            self.dispatcher,
            self.metrics,
            self._direct,
            lambda: self._supervisors,
        )
        if self._scheduling is not None:
            self._status.cron = self._scheduling.told
        self._status.unavailable = self._unavailable
        self.metrics.changed = self._status.changed
        sessions.on_new_session = self._fire_session_start
        sessions.notices.on_stored = self.gateway.wake_chat
        self.gateway.home = self.targets.home
        self.gateway.restart = lambda: self.stop(RESTART)
        self.gateway.platform_summary = self._status.summary
        self.gateway.pair = partial(pair_command, pairing)

    def _connect(self, app: App, platforms: dict[str, PlatformManifest]) -> None:
        extra: dict[str, Any] = {
            "app": app,
            "outbox": self.outbox,
            "scheduler": app.services.scheduler,
            "status": self._status.status,
            "metrics": self._status.metrics,
            "turns": self._direct,
            "backend": chat_backend(self._loaded.settings),
        }
        for manifest in platforms.values():
            try:
                adapter = make_adapter(manifest, app, extra)
            except HermesError as error:
                self._skip_platform(manifest.name, error, "failed")
                continue
            supervisor = Supervisor(
                adapter, self.inbound.receive, app.clock, changed=self._health_changed
            )
            self._supervisors.append(supervisor)
            supervisor.start()

    def _skip_platform(self, name: str, why: HermesError, state: str) -> None:
        self._warn(f"{name} is not started: {why}\n{why.hint}".strip())
        self._unavailable.append(AdapterState(name, state, detail=str(why), hint=why.hint))

    def _health_changed(self, health: Health) -> None:
        """Handle a new state of a supervisor: the platform is usable from now on, or no longer."""
        for supervisor in self._supervisors:
            adapter = supervisor.adapter
            if adapter.manifest.name != health.platform:
                continue
            if health.state == "healthy":
                if self.connections.get(health.platform, adapter.account) is None:
                    self.connections.add(adapter, supervisor.check)
                    self._start(self._platform_up(supervisor))
            else:
                self.connections.remove(adapter)
                self.dispatcher.platform_down(health.platform)
                if health.refused and not self._stop.is_set():
                    label = adapter.manifest.label
                    self._warn(
                        f"{label} is not connected: {health.last_error}\n{health.hint}".strip()
                    )
        self._status.changed()

    async def _platform_up(self, supervisor: Supervisor) -> None:
        adapter = supervisor.adapter
        account_key = (adapter.manifest.name, adapter.account)
        connection = self.connections.get(*account_key)
        self._inform(f"{adapter.manifest.label} is connected")
        tries = 0
        while self.connections.get(*account_key) is connection:
            tries += 1
            if await self._resume_platform(account_key, anyway=tries > MAX_SETTLE_TRIES):
                self.directory.add_chats(
                    adapter.manifest.name, await adapter.chats(), adapter.account
                )
                return
            supervisor.check()
            await self.gateway.clock.sleep(RETRY_SECONDS)

    async def _resume_platform(self, account_key: PlatformAccount, *, anyway: bool) -> bool:
        """Start work on the pending messages of a platform, once no delivery there is uncertain,
        or `anyway` if the platform cannot be asked."""
        try:
            if not anyway and not await self.outbox.settle((account_key,), seconds=SETTLE_SECONDS):
                return False
            await self.dispatcher.resume_platform(account_key[0])
        except StoreError as error:
            log.warning("pending messages on %s cannot be processed yet: %s", account_key[0], error)
            return False
        self.outbox.wake()
        return True

    def _boot(self, app: App) -> None:
        """Start the tasks of BOOT.md, if the file exists."""
        file = self._home.root / "BOOT.md"
        if file.is_file():
            boot = BootTask(app, self.gateway, file, self.targets.homes(), self._proxy)
            self._start(boot.run())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)
        task.add_done_callback(_log_failure)

    async def _close(self, background: list["asyncio.Task[None]"]) -> None:
        """Let turns finish, stop the others with a notice, send the last messages, close all
        parts."""
        self._status.set_state("draining")
        seconds = self._loaded.settings.gateway.drain_seconds
        if running := self.dispatcher.running_turns + self._direct.running:
            turns = f"{many(running, 'turn')} still {'runs' if running == 1 else 'run'}"
            self._inform(f"{turns}, for at most {seconds:g} seconds; Ctrl-C again stops now")
        adapters = [each.adapter for each in self._supervisors]
        cut = await drain_all(self.dispatcher, adapters, seconds, self._hurry)
        try:
            for worker in cut:
                if worker.source is not None:
                    await self.gateway.outbox.notify(worker.source.target, RESTART_NOTICE, "notice")
            await self.outbox.flush(FLUSH_SECONDS)
        except HermesError as error:  # the other parts are closed anyway
            log.warning("not all notices could be sent at shutdown: %s", error)
        for task in (*background, *self._side_tasks):
            task.cancel()
        await asyncio.gather(*background, *self._side_tasks, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in self._supervisors), return_exceptions=True)
        await self.hooks.close()
        await self.gateway.updates.close()
        await self.gateway.sessions.close_all()
        try:
            await asyncio.to_thread(self.directory.save)
        except HermesError as error:
            log.warning("the names of chats could not be saved: %s", error)
        await self._status.write("stopped")

    async def _fire_session_start(self, key: str, session_id: str, source: SessionSource) -> None:
        await self.hooks.fire("session:start", **about(source, key), session_id=session_id)

    def _describe_homes(self) -> str:
        homes = self.targets.homes()
        return ", ".join(
            f"{account_key[0]} (home channel {homes[account_key[0]].chat_id})"
            if account_key[0] in homes
            else account_key[0]
            for account_key in self.connections.accounts()
        )

    def _inform(self, text: str) -> None:
        if not self._quiet:
            self._print(text)

    def _warn(self, text: str) -> None:
        log.warning("%s", text)
        self._print(text)

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed: the gateway continues
            self._note(text)


@contextlib.contextmanager
def _signals(stop: Callable[[int], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    codes = {signal.SIGTERM: 0, signal.SIGINT: 0, signal.SIGUSR1: RESTART}
    for number, code in codes.items():
        loop.add_signal_handler(number, stop, code)
    try:
        yield
    finally:
        for number in codes:
            loop.remove_signal_handler(number)


async def _require_jobs(app: App, scheduling: CronSupport | None) -> None:
    """Raise `HermesError` if there are neither platforms nor scheduled jobs."""
    if scheduling is None or not await scheduling.is_needed(app):
        raise HermesError(
            "no platform is set up, and there is no scheduled job",
            hint="`hermes gateway setup` connects a platform; the API server needs no account:"
            " `hermes config set platforms.api_server.enabled true`; `hermes cron create` makes a"
            " job",
        )


async def _run_forever(work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run a part of the gateway for as long as the gateway runs; start it again after a failure."""
    while True:
        try:
            return await work()
        except Exception:  # without this part the gateway would run and do nothing
            log.exception("a part of the gateway failed and is restarted")
            await clock.sleep(RETRY_SECONDS)


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.warning("a background operation of the gateway failed", exc_info=fault)
