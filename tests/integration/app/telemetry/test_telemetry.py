"""Telemetry switched on, switched off, and with a collector that is not there."""

import logging
import socket
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hermes import __version__
from hermes.app.extensions import telemetry_of
from hermes.config.settings import TelemetrySettings
from hermes.core.errors import ConfigError
from hermes.core.events import TurnFinished, TurnStarted
from hermes.core.model import Usage
from hermes_plugins.telemetry.otlp import QuietExporter

TURN = (TurnStarted("s1", "model-a", "openai"), TurnFinished("s1", "answered", "done", Usage(), 1))


def started(endpoint: str, **options):
    return telemetry_of(TelemetrySettings(enabled=True, endpoint=endpoint, **options), str)


def watch_a_turn(endpoint: str, **options) -> None:
    telemetry = started(endpoint, **options)
    observer = telemetry.observer()
    for event in TURN:
        observer.see(event)
    telemetry.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_spans_go_to_the_collector_under_the_name_of_the_service(collector, path):
    headers = {"X-Api-Key": "k1"}
    watch_a_turn(collector.endpoint + path, headers=headers, service_name="my-agent")
    [request] = collector.requests
    assert (request.method, request.path) == ("POST", "/v1/traces")
    assert request.headers["x-api-key"] == "k1"
    assert collector.resource["service.name"] == "my-agent"
    assert collector.resource["service.version"] == __version__


def test_closing_again_does_nothing(collector):
    telemetry = started(collector.endpoint)
    telemetry.observer()
    telemetry.close()
    telemetry.close()
    assert collector.requests == []


def test_unreachable_collector_is_logged_once(caplog, capfd):
    with caplog.at_level(logging.INFO):
        watch_a_turn(f"http://127.0.0.1:{free_port()}")
    [record] = caplog.records
    assert record.name == "hermes_plugins.telemetry.otlp"
    assert "they are lost" in record.message
    assert "Traceback" not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_refusing_collector_is_logged(collector, caplog):
    collector.status = 400
    with caplog.at_level(logging.WARNING):
        watch_a_turn(collector.endpoint)
    [record] = caplog.records
    assert "takes no spans" in record.message


def test_closing_does_not_wait_for_a_collector_that_never_answers(collector, caplog):
    collector.pause = 60.0
    with caplog.at_level(logging.WARNING):
        watch_a_turn(collector.endpoint)
    assert "they are lost" in caplog.text


class Moody(SpanExporter):
    """Returns the given results in order."""

    def __init__(self, *results: SpanExportResult) -> None:
        self._results = list(results)

    def export(self, spans: object) -> SpanExportResult:
        return self._results.pop(0)

    def shutdown(self) -> None:
        return None


def test_outage_and_its_end_are_logged_once_each(caplog):
    good, bad = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    exporter = QuietExporter(Moody(good, bad, bad, good, good, bad, bad))
    with caplog.at_level(logging.INFO):
        for _ in range(6):
            exporter.export(())
        exporter.shutdown()
        exporter.export(())
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_invalid_endpoint_is_a_config_error():
    with pytest.raises(ConfigError, match=r"telemetry\.endpoint") as caught:
        started("localhost:4318")
    assert caught.value.hint


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("module", ["hermes.app.app", "hermes.cli.main", "hermes.sdk.telemetry"])
def test_without_telemetry_nothing_of_opentelemetry_is_loaded(module):
    program = f"import sys, {module}; print('opentelemetry' in sys.modules)"
    assert run(program) == "False"


def test_missing_package_is_reported_with_what_to_install():
    program = """
import sys
sys.modules["opentelemetry.exporter"] = None
from hermes.app.extensions import telemetry_of
from hermes.config.settings import TelemetrySettings
from hermes.core.errors import ConfigError
try:
    telemetry_of(TelemetrySettings(enabled=True), str)
except ConfigError as error:
    print(error)
    print(error.hint)
"""
    message, hint = run(program).splitlines()
    assert "opentelemetry" in message
    assert "not installed" in message
    assert "hermes setup otel" in hint
