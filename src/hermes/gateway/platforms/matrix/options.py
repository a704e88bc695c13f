"""What the adapter is told by config.yaml and by variables."""

from urllib.parse import urlsplit

import msgspec

from hermes.config.settings.platforms import MatrixSettings
from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused

HINT = "Set MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD."
YES = frozenset({"true", "1", "yes", "on"})
NO = frozenset({"false", "0", "no", "off"})


class Options(msgspec.Struct, frozen=True):
    homeserver: str
    token: str = ""
    user_id: str = ""
    password: str = ""
    device_id: str = ""
    encryption: bool = False
    recovery_key: str = ""
    reactions: bool = True
    settings: MatrixSettings = MatrixSettings()

    @property
    def identity(self) -> str:
        """What only one gateway may use at a time."""
        return self.token or f"{self.homeserver} {self.user_id}"


def options_from(context: AdapterContext) -> Options:
    """Raises `CredentialsRefused` when something is missing or cannot be."""

    def said(name: str) -> str:
        return (context.variable(f"MATRIX_{name}") or "").strip()

    token = said("ACCESS_TOKEN") or getattr(context.connection, "token", "")
    user_id, password = said("USER_ID"), said("PASSWORD")
    if not token and not (user_id and password):
        raise CredentialsRefused("Matrix has no access token and no password", hint=HINT)
    settings = context.settings
    return Options(
        homeserver=_homeserver(said("HOMESERVER")),
        token=token,
        user_id=user_id,
        password=password,
        device_id=said("DEVICE_ID"),
        encryption=said("ENCRYPTION").lower() in YES,
        recovery_key=said("RECOVERY_KEY"),
        reactions=said("REACTIONS").lower() not in NO,
        settings=settings if isinstance(settings, MatrixSettings) else MatrixSettings(),
    )


def _homeserver(given: str) -> str:
    if not given:
        raise CredentialsRefused("Matrix has no homeserver", hint=HINT)
    address = given if "://" in given else f"https://{given}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise CredentialsRefused(
            "MATRIX_HOMESERVER is no address", hint="it looks like https://matrix.example.org"
        )
    return address.rstrip("/")
