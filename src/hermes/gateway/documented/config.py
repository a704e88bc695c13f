"""`gateway.config`: which platforms there are and how they are set up, as plain records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermes.app.compat.runtime import shared_process
from hermes.config.loader import Loaded
from hermes.gateway.platforms.kit.contract import PlatformManifest
from hermes.gateway.platforms.registry import home_variable, is_configured, manifests


class Platform(StrEnum):
    """Those that the settings know. One that a plugin brings is a mere string."""

    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"
    MATRIX = "matrix"
    MATTERMOST = "mattermost"
    EMAIL = "email"
    SMS = "sms"
    DINGTALK = "dingtalk"
    FEISHU = "feishu"
    WECOM = "wecom"
    WECOM_CALLBACK = "wecom_callback"
    WEIXIN = "weixin"
    BLUEBUBBLES = "bluebubbles"
    QQ = "qq"
    HOMEASSISTANT = "homeassistant"
    WEBHOOK = "webhook"
    API_SERVER = "api_server"
    LOCAL = "local"


_PLATFORMS = {str(each): each for each in Platform}


def platform_named(name: str) -> Platform | str:
    return _PLATFORMS.get(name, name)


@dataclass
class PlatformConfig:
    enabled: bool = False
    token: str = field(default="", repr=False)
    home_channel: str = ""
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """What only this platform has; it may hold secrets."""

    @classmethod
    def of(cls, manifest: PlatformManifest, loaded: Loaded) -> "PlatformConfig":
        """As the settings have it. Without a token of its own it is the first secret variable."""
        said = _section(_section(loaded.raw, "platforms"), manifest.name)
        secrets = (each.name for each in manifest.credentials if each.secret)
        return cls(
            enabled=is_configured(manifest, loaded),
            token=str(said.get("token") or loaded.variable(next(secrets, "")) or ""),
            home_channel=loaded.variable(home_variable(manifest)) or "",
            extra=dict(_section(said, "extra")),
        )


@dataclass
class GatewayConfig:
    platforms: dict[Platform | str, PlatformConfig] = field(default_factory=dict)

    @classmethod
    def load(cls) -> "GatewayConfig":
        """Of the home in force."""
        loaded = shared_process().loaded
        found = manifests().items()
        return cls({platform_named(name): PlatformConfig.of(each, loaded) for name, each in found})

    def get_connected_platforms(self) -> list[Platform | str]:
        """Those that a gateway would connect to."""
        return [name for name, each in self.platforms.items() if each.enabled]

    def get_home_channel(self, platform: Platform | str) -> str:
        """ "" when it has none."""
        found = self.platforms.get(platform)
        return found.home_channel if found else ""

    def overrides(self) -> dict[str, Any]:
        """For the loader: exactly these platforms, set up like this. Those of plugins are as the
        settings have them."""
        said: dict[str, Any] = {}
        for platform in Platform:
            wanted = self.platforms.get(platform) or PlatformConfig()
            said[f"platforms.{platform}.enabled"] = wanted.enabled
            if wanted.enabled and wanted.token:
                said[f"platforms.{platform}.token"] = wanted.token
            if wanted.enabled and wanted.extra:
                said[f"platforms.{platform}.extra"] = wanted.extra
        return said


def _section(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}
