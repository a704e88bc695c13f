"""Periodic work: stuck turns, session resets, old files and messages, the model list."""

import asyncio
import logging
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes.app import back_up_when_due, remove_old_copies
from hermes.config.settings import SessionResetSettings
from hermes.core.errors import ConfigError, HermesError
from hermes.gateway.platforms.registry import media_folder
from hermes.sdk.platforms import MediaCache

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

log = logging.getLogger(__name__)

EVERY = 60.0
RARELY = 60  #: Rounds between two clean-ups.
DAY = 86_400.0
MOST_CLOSED = 20
"""Sessions per round that are opened only to save their memory before they end."""


class Maintenance:
    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._cache = MediaCache(media_folder(gateway.app.home.root))
        self._learn_at = 0.0

    async def run(self) -> None:
        rounds = 0
        while True:
            await self._gateway.clock.sleep(EVERY)
            rounds += 1
            try:
                self.stop_stuck()
                await self.expire()
                if rounds % RARELY == 1:
                    await self.clean()
                    self.learn_models()
                await asyncio.to_thread(self._gateway.directory.save)
            except (HermesError, OSError) as error:
                log.error("maintenance: %s", error)

    def stop_stuck(self) -> None:
        """Stop turns without any activity; their users are informed."""
        most = self._gateway.settings.gateway.stuck_minutes * 60
        now = self._gateway.clock.monotonic()
        for worker in self._gateway.workers_in_use():
            turn = None if worker.questions.has_open else worker.turn
            if turn is not None and now - turn.last_activity > most:
                log.warning("%s: a turn was inactive for too long and is stopped", worker.key)
                worker.stop_turn("stuck")

    async def expire(self) -> None:
        """End the sessions that the reset settings end; their memory is saved."""
        chats = await self._gateway.store.chats.select()
        busy = {worker.key for worker in self._gateway.workers_in_use() if worker.working}
        opened, ends, closed = self._gateway.open_agents(), [], 0
        for key in (chat.session_key for chat in chats if self._gateway.reset_reason(chat)):
            closed += key not in opened and key not in busy
            if key in busy or (key not in opened and closed > MOST_CLOSED):
                continue
            worker = self._gateway.worker(key)
            worker.check_reset()
            ends.append(asyncio.ensure_future(worker.wait_finished()))
        if ends:
            await asyncio.wait(ends, timeout=EVERY)

    async def clean(self) -> None:
        app, settings = self._gateway.app, self._gateway.settings.gateway
        now = self._gateway.now()
        await self._gateway.store.clean_queues(now - settings.keep_days * DAY)
        before = now - settings.media_keep_days * DAY
        gone = await asyncio.to_thread(self._cache.clean, before)
        gone += await asyncio.to_thread(remove_old_copies, app.home.root, before)
        if gone:
            log.info("removed %d old files of chats", gone)
        await asyncio.to_thread(back_up_when_due, app.home, app.loaded.settings)

    def learn_models(self) -> None:
        """Refresh the model list of the endpoint in the background, at most once a day."""
        now = self._gateway.clock.monotonic()
        if now >= self._learn_at and self._gateway.app.providers.learn_meanwhile():
            self._learn_at = now + DAY


FILE = "gateway.json"


class _PlatformRule(msgspec.Struct, frozen=True):
    """Overrides of one platform; other values come from `session_reset`."""

    mode: Literal["both", "idle", "daily", "none"] | None = None
    idle_minutes: int | None = None
    at_hour: int | None = None


class _GatewayFile(msgspec.Struct, frozen=True):
    reset_by_platform: dict[str, _PlatformRule] = {}


class ResetPolicy:
    def __init__(
        self,
        default: SessionResetSettings,
        by_platform: dict[str, _PlatformRule],
        zone: tzinfo | None,
    ) -> None:
        """`zone` is the time zone of `at_hour`; None means that of the given times."""
        self._default, self._by_platform, self._zone = default, by_platform, zone

    @classmethod
    def read(cls, default: SessionResetSettings, home: Path, zone: tzinfo | None) -> "ResetPolicy":
        """Read the overrides in gateway.json. Raises `ConfigError` if the file is invalid."""
        path = home / FILE
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_GatewayFile)
        except FileNotFoundError:
            found = _GatewayFile()
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{FILE} cannot be read: {error}", where=str(path)) from error
        return cls(default, found.reset_by_platform, zone)

    def rule(self, platform: str) -> SessionResetSettings:
        own = msgspec.structs.asdict(self._by_platform.get(platform, _PlatformRule()))
        given = {key: value for key, value in own.items() if value is not None}
        return msgspec.structs.replace(self._default, **given)

    def reset_reason(self, platform: str, last: datetime, now: datetime) -> str:
        """Return why a session that was last active at `last` ends; "" while it continues."""
        rule = self.rule(platform)
        if rule.mode in ("idle", "both") and now - last >= timedelta(minutes=rule.idle_minutes):
            return f"{rule.idle_minutes} minutes of silence"
        local = now.astimezone(self._zone) if self._zone else now
        reset = local.replace(hour=rule.at_hour, minute=0, second=0, microsecond=0, fold=0)
        reset = reset if reset <= local else reset - timedelta(days=1)
        if rule.mode in ("daily", "both") and last < reset <= now:
            return f"it is past {rule.at_hour:02d}:00"
        return ""
