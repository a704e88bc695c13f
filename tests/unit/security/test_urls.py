"""Which URLs may be fetched. The URLs are in `urls.json`."""

from collections.abc import Sequence
from pathlib import Path

import httpx2
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.core.errors import ToolDenied, ToolError
from hermes.security import Blocklist, UrlGuard, parse_allowed_hosts, printable_url
from hermes.security.urls import system_resolver

CASES = msgspec.json.decode(
    (Path(__file__).parent / "urls.json").read_bytes(), type=dict[str, dict[str, str]]
)
PUBLIC = "93.184.215.14"


class Names:
    """A name server of the test: each name has answers, given one after the other; the last one
    stays. It counts the questions."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise OSError("name not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def anything_public(host: str, port: int) -> Sequence[str]:
    return (PUBLIC,)


async def test_refused_urls_name_the_reason() -> None:
    assert len(CASES["refused"]) >= 80
    guard = UrlGuard(anything_public)
    for url, reason in CASES["refused"].items():
        with pytest.raises(ToolDenied) as refusal:
            await guard.vet(url)
        concern = guard.examine(url)
        assert concern is not None, url
        assert concern.refused, url
        assert (reason in str(refusal.value), reason in concern.reason) == (True, True), url


async def test_public_urls_are_parsed_like_the_http_client() -> None:
    guard = UrlGuard(anything_public)
    for url, host in CASES["allowed"].items():
        assert guard.examine(url) is None, url
        vetted = await guard.vet(url)
        literal = ":" in host or host.replace(".", "").isdigit()
        expected = (host, httpx2.URL(url.strip()), (host if literal else PUBLIC,))
        assert (vetted.host, vetted.url, vetted.addresses) == expected, url


@pytest.mark.parametrize(
    "answer", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%eth0", "64:ff9b::a00:1"]
)
async def test_one_private_address_among_public_ones_refuses_a_name(answer: str) -> None:
    guard = UrlGuard(Names(site_example=[[PUBLIC, answer, "2606:4700::1"]]))
    with pytest.raises(ToolDenied, match=r"site\.example has the address"):
        await guard.vet("https://site.example/")


async def test_a_name_without_an_address_is_an_error_that_helps() -> None:
    guard = UrlGuard(Names(empty_example=[[]]))
    with pytest.raises(ToolError, match=r"no host gone\.example") as missing:
        await guard.vet("https://gone.example/")
    assert "spelling" in missing.value.hint
    with pytest.raises(ToolError, match="has no address"):
        await guard.vet("https://empty.example/")


async def test_looking_at_a_url_asks_no_name_server() -> None:
    names = Names()
    guard = UrlGuard(names)
    assert guard.examine("https://secret.attacker.example/") is None
    assert names.asked == []


async def test_the_user_can_open_private_hosts() -> None:
    allowed = parse_allowed_hosts(["NAS.local", "192.168.1.5:8080", "[fd00::5]:80"])
    guard = UrlGuard(Names(nas_local=[["192.168.1.9"]]), allowed=allowed)
    assert (await guard.vet("http://nas.local:5000/")).addresses == ("192.168.1.9",)
    assert (await guard.vet("http://192.168.1.5:8080/")).addresses == ("192.168.1.5",)
    assert (await guard.vet("http://[fd00::5]/")).addresses == ("fd00::5",)
    for closed in ("http://192.168.1.5/", "http://192.168.1.6:8080/", "http://x.nas.local/"):
        with pytest.raises(ToolDenied):
            await guard.vet(closed)


@pytest.mark.parametrize("entry", ["http://nas.local", "a b", "user@nas.local", "nas.local/x", ""])
def test_an_opened_host_must_be_a_host(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        parse_allowed_hosts([entry])


async def test_the_blocklist_comes_first() -> None:
    blocklist = Blocklist(["example.com", "nas.local"])
    allowed = parse_allowed_hosts(["nas.local"])
    guard = UrlGuard(anything_public, blocklist=blocklist, allowed=allowed)
    for url in ("https://example.com/", "https://WWW.Example.com./", "http://nas.local/"):
        with pytest.raises(ToolDenied, match="blocklist"):
            await guard.vet(url)


@given(
    st.one_of(st.text(), st.text().map("http://{}".format), st.text().map("http://e.org{}".format))
)
@example("http://\ud800.example/")
@example("http://example.com:" + "9" * 5_000)
@example("http://xn--\u00e9.example/")
def test_no_text_confuses_the_guard(url: str) -> None:
    concern = UrlGuard(anything_public).examine(url)
    if concern:
        assert concern.refused
        concern.reason.encode()


def test_a_message_shows_no_password_and_stays_short() -> None:
    assert printable_url("http://user:secret@example.com/") == "http://…@example.com/"
    assert "\n" not in printable_url("http://example.com/\nIgnore")
    assert len(printable_url("https://example.com/" + "a" * 9_000)) <= 201


async def test_the_system_resolver_knows_this_machine() -> None:
    assert "127.0.0.1" in await system_resolver("127.0.0.1", 80)
    with pytest.raises(ToolDenied, match="is a name of this machine"):
        await UrlGuard().vet("http://localhost/")
    guard = UrlGuard(allowed=parse_allowed_hosts(["localhost"]))
    assert set((await guard.vet("http://localhost/")).addresses) <= {"127.0.0.1", "::1"}
