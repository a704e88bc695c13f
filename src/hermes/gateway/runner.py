"""Runs a gateway: builds its parts, connects the platforms, and closes everything in order."""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hermes.app import App, SessionRequest
from hermes.config import policy
from hermes.config.home import Home
from hermes.config.installation import InstallFailed, install_extra
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.ports import Clock, Outbox, Scheduler
from hermes.gateway.gateway import Gateway
from hermes.gateway.maintenance import Maintenance
from hermes.gateway.platforms.registry import (
    chat_backend,
    configured_platforms,
    extra_of,
    incomplete_platforms,
    make_adapter,
    missing_modules,
    sandbox_warning,
    unknown_platforms,
)
from hermes.gateway.process import AdapterState
from hermes.gateway.proxy import load_proxy
from hermes.gateway.services import RESTART
from hermes.gateway.status import serve_metrics
from hermes.gateway.supervisor import Health, Supervisor
from hermes.sdk.platforms import PlatformManifest, cancel_and_wait
from hermes.util.concurrency import in_thread
from hermes.util.text import many

log = logging.getLogger(__name__)

SILENT = "[SILENT]"
BOOT_PROMPT = (
    "The gateway has just started. Do what BOOT.md says. If the result is not worth reporting,"
    " answer only {silent}.\n\n{text}"
)


async def run_boot_file(gateway: Gateway) -> None:
    """Run the tasks of BOOT.md, if the file exists, and send the answer to the home channels.
    Errors are logged; the gateway starts anyway."""
    app, file = gateway.app, gateway.app.home.root / "BOOT.md"
    try:
        text = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
        if not text:
            return
        folder = Path(gateway.settings.gateway.cwd).expanduser()
        request = SessionRequest(folder, source="cron", goes_on=False, skip_context_files=True)
        agent = await app.agent(gateway.proxy.request(request) if gateway.proxy else request)
        try:
            asked = User.say(BOOT_PROMPT.format(silent=SILENT, text=text))
            answer = ""
            async with aclosing(agent.run(asked)) as events:
                async for event in events:
                    if isinstance(event, TurnFinished):
                        answer = event.text or event.error
            log.info("BOOT.md: %s", answer)
            if answer.strip() and not answer.lstrip().startswith(SILENT):
                attachments = app.session(agent).attachments
                for target in gateway.targets.homes().values():
                    await gateway.outbox.notify(target, answer, attachments=attachments)
        finally:
            await app.leave(agent)
    except (HermesError, OSError, UnicodeDecodeError) as error:
        log.error("BOOT.md: %s", error)


RESTART_NOTICE = "The gateway is restarting. This turn continues when it is back."
RETRY_SECONDS = 1.0  #: Seconds before a failed part is started again.
MAX_SETTLE_TRIES = 3
SETTLE_SECONDS = 10.0
"""Seconds that a platform has to report on uncertain deliveries before work starts there."""
NO_WORK_HINT = (
    "`hermes gateway setup` connects a platform; the API server needs no account:"
    " `hermes config set platforms.api_server.enabled true`; `hermes cron create` makes a job"
)
FLUSH_SECONDS = 3.0  #: Seconds for sending the last messages at shutdown.


class CronSupport(Protocol):
    """Scheduled jobs, passed in by the program that starts the gateway."""

    def scheduler(self, app: App, outbox: Outbox) -> Scheduler: ...

    async def run(self, app: App, outbox: Outbox, stop: asyncio.Event) -> None:
        """Run due jobs until `stop` is set; unfinished ones can continue later."""
        ...

    async def is_needed(self, app: App) -> bool: ...

    def describe(self) -> str:
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
    """Runs a gateway in this process until a signal or `stop`."""

    gateway: Gateway  #: Set once `run` has loaded the app and its plugins.

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
        self._home, self._loaded, self._note = home, loaded.complete(), note
        self._quiet, self._scheduling, self._clock = quiet, scheduling, clock
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self.began = asyncio.Event()
        """Set when everything is built and the platforms are being connected."""
        self._exit_code = 0
        self._unavailable: list[AdapterState] = []  #: Platforms that could not be started at all.
        self._background: set[asyncio.Task[None]] = set()

    def stop(self, exit_code: int = 0) -> None:
        """Stop the gateway; a second call does not wait for running turns."""
        if self._stop.is_set():
            self._hurry.set()
        self._exit_code = exit_code
        self._stop.set()

    async def run(self) -> int:
        proxy, scheduling = load_proxy(self._loaded), self._scheduling
        app = App(self._home, self._loaded, _LogProgress(), self._warn, clock=self._clock)
        async with app:
            if self._loaded.unconfirmed:
                self._warn(policy.describe(self._loaded.unconfirmed))
            await app.extensions.settle()
            platforms = configured_platforms(self._loaded)
            for name, why in unknown_platforms(self._loaded).items():
                self._skip_platform(name, why, "failed")
            for manifest, why in incomplete_platforms(self._loaded):
                self._skip_platform(manifest.name, why, "incomplete")
            if not platforms:
                if scheduling is None or not await scheduling.is_needed(app):
                    raise HermesError(
                        "no platform is set up, and there is no scheduled job", hint=NO_WORK_HINT
                    )
                self._inform("no platform is set up: only scheduled jobs run")
            with _signals(self.stop):
                self.gateway = Gateway(
                    app,
                    platforms,
                    restart=partial(self.stop, RESTART),
                    warn=self._warn,
                    describe_jobs=scheduling.describe if scheduling else str,
                    proxy=proxy,
                    unavailable=self._unavailable,
                )
                self.maintenance = Maintenance(self.gateway)
                app.services.outbox = self.gateway.outbox
                if scheduling is not None:
                    app.services.scheduler = scheduling.scheduler(app, self.gateway.outbox)
                if self._loaded.settings.rl.trainer_command:
                    from hermes.envs import TrainingService  # few users train models

                    app.services.trainer = TrainingService(app.home, self._loaded)
                await self._serve(app)
        return self._exit_code

    async def _serve(self, app: App) -> None:
        gateway, stopping = self.gateway, asyncio.Event()
        loops = (gateway.outbox.run, gateway.renew_leases, self.maintenance.run, gateway.status.run)
        for work in loops:
            self._start(_run_forever(work, app.clock))
        if self._scheduling is not None:
            jobs = partial(self._scheduling.run, app, gateway.outbox, stopping)
            self._start(_run_forever(jobs, app.clock))
        settings = gateway.settings
        try:
            served = serve_metrics(settings.gateway.metrics_port, gateway.status.metrics)
            async with served as unserved:
                unsafe = "" if gateway.proxy else await in_thread(sandbox_warning, settings)
                for trouble in filter(None, (unserved, unsafe)):
                    self._warn(trouble)
                    gateway.status.troubles.append(trouble)
                self._connect(app)
                gateway.status.changed("running")
                if gateway.proxy is not None:
                    self._start(gateway.proxy.check(app.providers.client, self._warn))
                await gateway.hooks.fire("gateway:startup", platforms=sorted(gateway.manifests))
                await gateway.updates.report()
                self._start(run_boot_file(gateway))
                self.began.set()
                await self._stop.wait()
        finally:
            stopping.set()
            await self._close()

    def _connect(self, app: App) -> None:
        status = self.gateway.status
        extra: dict[str, Any] = {
            "app": app,
            "outbox": self.gateway.outbox,
            "scheduler": app.services.scheduler,
            "status": status.status,
            "metrics": status.metrics.text if status.metrics else None,
            "count_turn": status.count_direct_turn,
            "hooks": self.gateway.hooks,
            "leases": self.gateway.leases,
            "backend": chat_backend(self.gateway.settings),
        }
        install = self.gateway.settings.security.install_packages
        for manifest in self.gateway.manifests.values():
            if install and missing_modules(manifest) and extra_of(manifest):
                self._start(self._install(manifest, app, extra))
            else:
                self._connect_platform(manifest, app, extra)

    async def _install(self, manifest: PlatformManifest, app: App, extra: dict[str, Any]) -> None:
        """Install the library of a platform on its first use, then connect it."""
        self._inform(f"installing the packages for {manifest.label} (once) …")
        try:
            await install_extra(extra_of(manifest) or "", quiet=True)
        except InstallFailed as error:
            self._skip_platform(manifest.name, error, "failed")
        else:
            self._connect_platform(manifest, app, extra)

    def _connect_platform(
        self, manifest: PlatformManifest, app: App, extra: dict[str, Any]
    ) -> None:
        try:
            adapter = make_adapter(manifest, app, extra)
        except HermesError as error:
            self._skip_platform(manifest.name, error, "failed")
            return
        if adapter.notice:
            self._warn(adapter.notice)
            self.gateway.status.troubles.append(adapter.notice)
        supervisor = Supervisor(
            adapter, self.gateway.receive, app.clock, changed=self._health_changed
        )
        self.gateway.supervisors.append(supervisor)
        supervisor.start()

    def _skip_platform(self, name: str, why: HermesError, state: str) -> None:
        self._warn(f"{name} is not started: {why}\n{why.hint}".strip())
        self._unavailable.append(AdapterState(name, state, detail=str(why), hint=why.hint))

    def _health_changed(self, health: Health) -> None:
        """Handle a new state of a supervisor: the platform is usable from now on, or no longer."""
        connections = self.gateway.connections
        for supervisor in self.gateway.supervisors:
            adapter = supervisor.adapter
            if adapter.manifest.name != health.platform:
                continue
            if health.state == "healthy":
                if connections.get(health.platform, adapter.account) is None:
                    connections.add(adapter, supervisor.check)
                    self._start(self._platform_up(supervisor))
            else:
                connections.remove(adapter)
                self.gateway.ready.discard(health.platform)
                if health.refused and not self._stop.is_set():
                    label = adapter.manifest.label
                    self._warn(
                        f"{label} is not connected: {health.last_error}\n{health.hint}".strip()
                    )
        self.gateway.status.changed()

    async def _platform_up(self, supervisor: Supervisor) -> None:
        """Start work on the pending messages of a platform, once no delivery there is uncertain, or
        anyway if the platform cannot be asked."""
        # For a fast start, the command line looks for reference cycles rarely. Now conversations
        # come and go; with Python's own interval, closed ones take twenty megabytes less.
        gc.set_threshold(700, 10, 10)
        adapter, gateway, tries = supervisor.adapter, self.gateway, 0
        account = (adapter.manifest.name, adapter.account)
        connection = gateway.connections.get(*account)
        self._inform(f"{adapter.manifest.label} is connected")
        while gateway.connections.get(*account) is connection:
            tries += 1
            try:
                settled = await gateway.outbox.settle((account,), seconds=SETTLE_SECONDS)
                if settled or tries >= MAX_SETTLE_TRIES:
                    await gateway.resume_platform(account[0])
                    gateway.outbox.wake()
                    chats = await adapter.chats()
                    gateway.directory.add_chats(adapter.manifest.name, chats, adapter.account)
                    return
            except StoreError as error:
                log.warning("pending messages on %s cannot be processed yet: %s", account[0], error)
            supervisor.check()
            await gateway.clock.sleep(RETRY_SECONDS)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        def on_done(task: "asyncio.Task[None]") -> None:
            self._background.discard(task)
            if not task.cancelled() and (fault := task.exception()) is not None:
                log.warning("a background operation of the gateway failed", exc_info=fault)

        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(on_done)

    async def _close(self) -> None:
        """Let turns finish or stop them with a notice, send the last messages, close all parts."""
        gateway = self.gateway
        gateway.status.changed("draining")
        seconds = gateway.settings.gateway.drain_seconds
        if running := gateway.status.turns:
            turns = f"{many(running, 'turn')} still {'runs' if running == 1 else 'run'}"
            self._inform(f"{turns}, for at most {seconds:g} seconds; Ctrl-C again stops now")
        cut = await gateway.drain(seconds, self._hurry)
        try:
            for worker in cut:
                if worker.source is not None:
                    await gateway.outbox.notify(worker.source.target, RESTART_NOTICE)
            await gateway.outbox.flush(FLUSH_SECONDS)
        except HermesError as error:  # the other parts are closed anyway
            log.warning("not all notices could be sent at shutdown: %s", error)
        await cancel_and_wait(*self._background)
        stops = (each.stop() for each in gateway.supervisors)
        await asyncio.gather(*stops, return_exceptions=True)
        await gateway.close()
        gateway.status.changed("stopped")
        await gateway.status.write()

    def _warn(self, text: str) -> None:
        log.warning("%s", text)
        self._inform(text, quiet=False)

    def _inform(self, text: str, *, quiet: bool | None = None) -> None:
        if not (self._quiet if quiet is None else quiet):
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


async def _run_forever(work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run a part of the gateway for as long as the gateway runs; start it again after a failure."""
    while True:
        try:
            return await work()
        except Exception:  # without this part the gateway would run and do nothing
            log.exception("a part of the gateway failed and is restarted")
            await clock.sleep(RETRY_SECONDS)
