"""Telemetry for one process: the plugin `otlp` sends spans to a collector, in the background.

The plugin and OpenTelemetry are loaded by `start_telemetry` and not before.
"""

from collections.abc import Callable

from hermes.config.settings import TelemetrySettings
from hermes.core.errors import ConfigError
from hermes.sdk.telemetry import StartTelemetry, Telemetry, TelemetryOptions
from hermes.util.extras import install_hint


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
    # Only processes with telemetry load a plugin here.
    from hermes.plugins.loader import import_folder
    from hermes.plugins.manifest import bundled_folder

    try:
        start: StartTelemetry = import_folder(bundled_folder("telemetry") / "otlp").start
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise ConfigError(
            f"telemetry.enabled is on, but {error.name} is not installed",
            hint=f"{install_hint('otel')}, or hermes config set telemetry.enabled false",
        ) from None
    return start(options, redact)
