"""When the conversation of a chat is over by itself: after silence, or at an hour of the day.

`session_reset` of config.yaml, and for single platforms `reset_by_platform` in gateway.json.
"""

from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Literal

import msgspec

from hermes.config.settings.agent import SessionResetSettings
from hermes.core.errors import ConfigError

FILE = "gateway.json"


class Policy(msgspec.Struct, frozen=True):
    mode: Literal["both", "idle", "daily", "none"] = "both"
    idle_minutes: int = 1440
    at_hour: int = 4


class _Own(msgspec.Struct, frozen=True):
    """What a platform says of itself; the rest is as for all."""

    mode: Literal["both", "idle", "daily", "none"] | None = None
    idle_minutes: int | None = None
    at_hour: int | None = None


class _File(msgspec.Struct, frozen=True):
    reset_by_platform: dict[str, _Own] = {}


class Resets:
    def __init__(
        self, usual: SessionResetSettings, own: dict[str, _Own], zone: tzinfo | None
    ) -> None:
        """`zone` None is that of the times asked about."""
        self._usual = Policy(usual.mode, usual.idle_minutes, usual.at_hour)
        self._own, self._zone = own, zone

    @classmethod
    def read(cls, usual: SessionResetSettings, home: Path, zone: tzinfo | None) -> "Resets":
        """Raises `ConfigError` for a gateway.json that cannot be understood."""
        path = home / FILE
        try:
            own = msgspec.json.decode(path.read_bytes(), type=_File).reset_by_platform
        except FileNotFoundError:
            own = {}
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{FILE} cannot be read: {error}", where=str(path)) from error
        return cls(usual, own, zone)

    def policy(self, platform: str) -> Policy:
        own = self._own.get(platform)
        if own is None:
            return self._usual
        said = {
            key: value for key, value in msgspec.structs.asdict(own).items() if value is not None
        }
        return msgspec.structs.replace(self._usual, **said)

    def why(self, platform: str, last: datetime, now: datetime) -> str:
        """Why a conversation is over that was last active then; "" while it goes on."""
        policy = self.policy(platform)
        if policy.mode in ("idle", "both") and now - last >= timedelta(minutes=policy.idle_minutes):
            return f"{policy.idle_minutes} minutes of silence"
        if policy.mode in ("daily", "both") and last < self._newest_reset(policy, now) <= now:
            return f"it is past {policy.at_hour:02d}:00"
        return ""

    def _newest_reset(self, policy: Policy, now: datetime) -> datetime:
        local = now.astimezone(self._zone) if self._zone else now
        today = local.replace(hour=policy.at_hour, minute=0, second=0, microsecond=0, fold=0)
        return today if today <= local else today - timedelta(days=1)
