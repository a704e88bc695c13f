"""Requests: what is tried again, what is not, and what is said about a failure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import ConfigError
from hermes.sdk.memory import (
    ServiceCircuitBreaker,
    ServiceClient,
    ServiceError,
    ServiceNotFound,
    ServicePaused,
    quote_segment,
)
from hermes.sdk.memory.service import MAX_BYTES
from tests.integration.memory_services.fakes import KEY
from tests.integration.memory_services.site import Fault, Request, Site
from tests.unit.security.certificates import server_and_trust


def echo(request: Request) -> Any:
    return {"path": request.path, "params": request.params, "key": request.headers.get("x-key")}


@pytest.fixture
def site() -> Iterator[Site]:
    opened = Site(echo)
    yield opened
    opened.close()


@pytest.fixture
def api(site: Site) -> Iterator[ServiceClient]:
    opened = ServiceClient("Thing", f"{site.url}/base/", {"X-Key": KEY}, secret=KEY, seconds=20)
    yield opened
    opened.close()


def test_an_answer_comes_with_headers_and_parameters_sent(api: ServiceClient) -> None:
    answer = api.read("GET", f"/x/{quote_segment('a/b ?')}", params={"n": 3})
    assert answer == {"path": "/base/x/a/b ?", "params": {"n": "3"}, "key": KEY}


def test_reading_is_tried_again_when_the_service_is_busy(api: ServiceClient, site: Site) -> None:
    site.misbehave(Fault(503, times=1))
    assert api.read("GET", "/x")["path"] == "/base/x"
    assert len(site.requests) == 2


def test_writing_is_never_done_twice(api: ServiceClient, site: Site) -> None:
    site.misbehave(Fault(503, times=1))
    with pytest.raises(ServiceError, match="answered 503"):
        api.write("POST", "/x", {})
    assert len(site.requests) == 1


def test_a_failure_of_the_server_is_not_asked_for_again(api: ServiceClient, site: Site) -> None:
    site.misbehave(Fault(500, b'{"message": "broken\\nin two"}', times=1))
    with pytest.raises(
        ServiceError, match=r"Thing at 127\.0\.0\.1:\d+ answered 500: broken in two"
    ):
        api.read("GET", "/x")
    assert len(site.requests) == 1


def test_not_found_reads_as_none_and_fails_a_write(api: ServiceClient, site: Site) -> None:
    site.misbehave(Fault(404, b"nothing"))
    assert api.read("GET", "/x") is None
    with pytest.raises(ServiceNotFound):
        api.write("DELETE", "/x")


def test_a_redirect_is_not_followed(api: ServiceClient, site: Site) -> None:
    site.misbehave(Fault(302, b"", {"Location": "http://127.0.0.1:9/"}))
    with pytest.raises(ServiceError, match="answered 302") as refused:
        api.read("GET", "/x")
    assert "base_url" in refused.value.hint
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("letter", "count", "said"),
    [(b" ", MAX_BYTES + 1, "more than can be read"), (b"[", 100_000, "not JSON")],
)
def test_a_flood_or_too_deep_json_is_an_error(api, site, letter, count, said):
    site.misbehave(Fault(200, letter * count))
    with pytest.raises(ServiceError, match=said):
        api.read("GET", "/x")


def test_a_server_that_is_not_there_is_named_without_what_is_secret(site: Site) -> None:
    site.close()
    host = site.url.removeprefix("http://")
    gone = ServiceClient("Thing", f"http://user:{KEY}@{host}", {}, secret=KEY)
    with pytest.raises(ServiceError) as caught:
        gone.read("GET", "/x")
    gone.close()
    assert str(caught.value) == f"Thing at {host} cannot be reached"


def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, _trust = server_and_trust(tmp_path, "IP:127.0.0.1")
    site = Site(echo, tls)
    stranger = ServiceClient("Thing", site.url, {})
    with pytest.raises(ServiceError, match="certificate is not trusted"):
        stranger.read("GET", "/x")
    stranger.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    known = ServiceClient("Thing", site.url, {})
    answer = known.read("GET", "/x")
    known.close()
    site.close()
    assert answer == {"path": "/x", "params": {}, "key": None}


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://x", "http://", "file:///etc"])
def test_an_address_that_is_none_is_an_error_of_the_settings(address: str) -> None:
    with pytest.raises(ConfigError, match="not an HTTP address"):
        ServiceClient("Thing", address, {})


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServiceClient("Thing", "http://localhost", {"X-Key": key}, secret=key)
    assert key not in str(caught.value)


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def fails(**kwargs: Any) -> Any:
    raise ServiceError("it is broken", **kwargs)


def missing() -> Any:
    raise ServiceNotFound("no such thing")


def test_after_three_failures_a_service_rests_longer_each_time() -> None:
    clock = Clock()
    circuit = ServiceCircuitBreaker("Thing", clock)
    for _ in range(3):
        with pytest.raises(ServiceError, match="broken"):
            circuit.run(fails)
    with pytest.raises(ServicePaused, match="asked again in 60 s; it is broken"):
        circuit.run(lambda: 1)
    clock.time += 61
    with pytest.raises(ServiceError, match="broken"):
        circuit.run(fails)
    clock.time += 61
    with pytest.raises(ServicePaused, match="asked again in 59 s"):
        circuit.run(lambda: 1)
    clock.time += 60
    assert circuit.run(lambda: 1) == 1
    with pytest.raises(ServiceError, match="broken"):
        circuit.run(fails)
    assert circuit.run(lambda: 2) == 2


def test_not_found_does_not_open_the_circuit() -> None:
    circuit = ServiceCircuitBreaker("Thing", Clock())
    for _ in range(5):
        with pytest.raises(ServiceNotFound):
            circuit.run(missing)
    assert circuit.run(lambda: 1) == 1


def test_retry_after_is_respected_up_to_a_limit() -> None:
    clock = Clock()
    circuit = ServiceCircuitBreaker("Thing", clock)
    with pytest.raises(ServiceError, match="broken"):
        circuit.run(lambda: fails(pause=100_000))
    clock.time += 601
    assert circuit.run(lambda: 1) == 1
