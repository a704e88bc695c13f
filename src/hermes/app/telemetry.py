"""Telemetry for one process: spans go to a collector over OTLP/HTTP, in the background.

OpenTelemetry is loaded by `start_telemetry` and not before.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from hermes.config.settings import TelemetrySettings
from hermes.core.errors import ConfigError
from hermes.core.ports import Observer
from hermes.util.extras import install_hint


class TelemetryOptions(msgspec.Struct, frozen=True):
    """The settings of `telemetry`, but for `enabled`."""

    endpoint: str = "http://127.0.0.1:4318"
    headers: dict[str, str] = {}
    service_name: str = "hermes"
    capture_content: bool = False


class Telemetry(Protocol):
    def observer(self, parent: Observer | None = None) -> Observer:
        """Return the observer of an agent. The turns of a subagent belong to the trace of its
        parent."""
        ...

    def close(self) -> None:
        """Send the remaining spans within a few seconds. Never raises."""
        ...


def telemetry_of(wanted: TelemetrySettings, redact: Callable[[str], str]) -> Telemetry | None:
    """Return None if telemetry is off."""
    if not wanted.enabled:
        return None
    options = TelemetryOptions(
        wanted.endpoint, wanted.headers, wanted.service_name, wanted.capture_content
    )
    return start_telemetry(options, redact)


def start_telemetry(options: TelemetryOptions, redact: Callable[[str], str]) -> Telemetry:
    """`redact` removes secrets from texts. Raises `ConfigError` for a wrong setting or a missing
    package, not for a collector that does not answer."""
    if not options.endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            "telemetry.endpoint must begin with http:// or https://",
            hint="for example http://127.0.0.1:4318",
        )
    try:
        from hermes.app.telemetry_spans import OtlpTelemetry  # an optional dependency
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise ConfigError(
            f"telemetry.enabled is on, but {error.name} is not installed",
            hint=f"{install_hint('otel')}, or hermes config set telemetry.enabled false",
        ) from None
    return OtlpTelemetry(options, redact)
