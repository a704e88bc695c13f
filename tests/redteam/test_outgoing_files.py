"""What a misled model can make the gateway send, on every platform and for every role.

The model answers with a line for each file of the machine: absolute paths, `~`, links, /proc, other
users' folders, key files, and files that are replaced while they are read. Only files of the own
folder may arrive, and none at a guest.
"""

import asyncio
import hashlib
import hmac
import itertools
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.testing import ModelServer
from hermes.gateway.platforms.manifests import API_SERVER, LOCAL, WEBHOOK
from hermes.gateway.runner import GatewayRunner
from hermes.sdk.testing.platforms.harness import Shown
from hermes.util.lazy import bundled_names
from hermes_plugins.platforms.discord import client as discord_options
from hermes_plugins.platforms.slack import client as slack_options
from tests.fakes.telegram.harness import TelegramHarness
from tests.integration.gateway.files.conftest import LEAK, Treasure
from tests.integration.gateway.files.conftest import treasure as treasure
from tests.integration.gateway.files.test_outgoing_files import GOOD, Scene, check_refusals, names
from tests.integration.platforms.discord.harness import DiscordHarness
from tests.integration.platforms.email.dovecot import running_dovecot
from tests.integration.platforms.email.post_office import PostOffice
from tests.integration.platforms.local.local_harness import LocalHarness
from tests.integration.platforms.matrix.harness import MatrixHarness
from tests.integration.platforms.matrix.homeserver import running_homeserver
from tests.integration.platforms.slack.harness import SlackHarness

CHATS = ("discord", "email", "local", "matrix", "slack", "telegram")
SERVERS = ("api_server", "webhook")  #: Programs talk to these; their tests are below.
PEOPLE = ("ann", "bob", "carl")
SECRET = "the-secret-of-the-route"


class ProvenMail(PostOffice):
    """Each mail carries the word of our mail server that its sender is proven."""

    async def says(self, text: str, **how: Any) -> str:
        proof = "mx.test; dmarc=pass header.from=example.org"
        return await super().says(text, **{"Authentication_Results": proof, **how})


@pytest.fixture(scope="module")
def dovecot():
    with running_dovecot() as server:
        yield server


@pytest.fixture(scope="module")
def homeserver(tmp_path_factory):
    return running_homeserver(tmp_path_factory.mktemp("synapse"), os.getpid())


async def start(name: str, folder: Path, request, monkeypatch) -> Any:
    match name:
        case "discord":
            made: Any = await DiscordHarness.start(folder)
            monkeypatch.setattr(discord_options, "BASE_URL", made.fake.base_url)
        case "email":
            made = await ProvenMail.start(request.getfixturevalue("dovecot"), folder)
        case "local":
            made = LocalHarness(folder)
            await made.platform.listen(made.socket)
        case "matrix":
            made = await MatrixHarness.start(folder, request.getfixturevalue("homeserver"))
            for person in PEOPLE:
                await made.person(person)
        case "slack":
            made = await SlackHarness.start(folder)
            monkeypatch.setattr(slack_options, "BASE_URL", made.fake.base_url)
        case _:
            made = await TelegramHarness.start(folder)
    return made


@pytest.fixture(params=CHATS)
async def scene(request, tmp_path, monkeypatch, treasure) -> AsyncIterator[Scene]:
    folder, work = tmp_path / "platform", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    harness = await start(request.param, folder, request, monkeypatch)
    for name, value in harness.variables.items():
        monkeypatch.setenv(name, value)
    prefix = harness.manifest.env_prefix or harness.manifest.name.upper()
    allowed = ",".join(harness.user_id(name) for name in ("ann", "bob"))
    monkeypatch.setenv(f"{prefix}_ALLOWED_USERS", allowed)
    monkeypatch.setenv("GATEWAY_ALLOW_ALL_USERS", "true")
    yield Scene(harness, treasure, work)
    await (harness.platform.close() if request.param == "local" else harness.close())


MAIL = {
    "imap_security": "plain", "smtp_security": "plain", "idle": False,
    "require_authentication": True, "authserv_id": "mx.test",
}  # fmt: skip


async def ask(scene: Scene, person: str, answer: str) -> list[Shown]:
    settings = {"platforms.email.extra": MAIL} if scene.platform == "email" else {}
    if isinstance(scene.harness, MatrixHarness):
        await scene.harness.room(person, user=person)
    return await scene.ask(person, [answer], **settings)


@contextmanager
def swapping(folder: Path, secret: Path) -> Iterator[list[str]]:
    """Files that are links half of the time, and folders that are; their paths."""
    real, there = folder / "real", folder / "there"
    real.mkdir()
    (real / "tax.txt").write_bytes(GOOD)
    done = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if done.is_set():
                return
            link = folder / f"new-{number}"
            link.symlink_to(secret if number % 2 else real / "tax.txt")
            link.replace(folder / "swap.txt")
            link.symlink_to(secret.parent if number % 2 else real)
            link.replace(there)
            plain = folder / f"plain-{number}"
            plain.write_bytes(GOOD)
            plain.replace(folder / "swap.txt")

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        read = b""
        while LEAK not in read:  # a careless reader gets the secret
            with suppress(OSError):
                read = (folder / "swap.txt").read_bytes()
        yield [f"{folder}/swap.txt", f"{there}/tax.txt"] * 20
    finally:
        done.set()
        thread.join()


def test_every_platform_is_attacked():
    assert {*CHATS, *SERVERS} == {
        *bundled_names("platforms"),
        *(each.name for each in (API_SERVER, LOCAL, WEBHOOK)),
    }


@pytest.mark.parametrize("person", PEOPLE)
async def test_only_files_of_the_own_folder_arrive(scene: Scene, person: str):
    """ann is the owner, bob a member, carl a guest."""
    folder = scene.folder(person)
    text = scene.treasure.answer(folder, folder / "report.txt")
    with swapping(folder, scene.treasure.user_home / "Documents" / "tax.txt") as paths:
        swapped = "\n".join(f"MEDIA:{path}" for path in paths)
        shown = await ask(scene, person, text.replace("the end", f"{swapped}\nthe end"))
    check_refusals(shown, "guests receive no files" if person == "carl" else "is outside")
    found = set(names(shown))
    assert found <= (set() if person == "carl" else {"report.txt", "swap.txt", "tax.txt"})
    assert person == "carl" or "report.txt" in found
    assert {*scene.copies(), *scene.uploads()} <= {GOOD}
    assert all(LEAK.decode() not in each.text + each.raw for each in shown)


SPELLINGS = [
    "![photo](file://{0})", "![photo]({0})", "[[file:{0}]]", '<img src="file://{0}">', "file://{0}",
    "<media>{0}</media>", "media:{0}", "MEDIA: {0}", "MEDIA:file://{0}", 'MEDIA:"{0}"',
    "MEDIA:<{0}>",
    "MEDIA:{0}\u200b", "[audio_as_voice]\nMEDIA:{0}", "```\nMEDIA:{0}\n```", "> MEDIA:{0}",
]  # fmt: skip


async def test_other_ways_to_name_a_file_send_nothing(scene: Scene):
    """Also no adapter reads files that markup names."""
    secret = scene.treasure.user_home / "Documents" / "tax.txt"
    lines = [each.format(secret) for each in SPELLINGS]
    shown = await ask(scene, "bob", "\n\n".join([*lines, "the end"]))
    assert names(shown) == []
    assert scene.copies() == scene.uploads() == []
    assert all(LEAK.decode() not in each.text + each.raw for each in shown)


async def run_gateway(treasure: Treasure, answer: str, work: Path, settings: Any, use: Any) -> Any:
    home = Home(treasure.hermes_home)
    with ModelServer(lambda _request: answer) as server:
        said = {
            "model.provider": "custom", "model.base_url": f"{server.url}/v1",
            "model.default": "lab", "gateway.cwd": str(work), "gateway.terminal": "local",
            "sessions.auto_title": False, "gateway.drain_seconds": 0, **settings,
        }  # fmt: skip
        runner = GatewayRunner(home, load(home, said), note=print, quiet=True)
        task = asyncio.create_task(runner.run())
        try:
            async with asyncio.timeout(60):
                await runner.began.wait()
                while any(each.health.state != "healthy" for each in runner.gateway.supervisors):
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.01)
                return await use(runner)
        finally:
            runner.stop()
            await task


async def test_api_server_answers_with_text_only(treasure, tmp_path, monkeypatch):
    monkeypatch.setenv("API_SERVER_PORT", "0")
    monkeypatch.setenv("API_SERVER_KEY", "a-key-of-the-api-server-0123456789")
    answer = treasure.answer(tmp_path, tmp_path / "report.txt")

    async def use(runner: GatewayRunner) -> str:
        (supervisor,) = runner.gateway.supervisors
        base = f"http://127.0.0.1:{supervisor.adapter.port}"  # type: ignore[attr-defined]
        headers = {"Authorization": "Bearer a-key-of-the-api-server-0123456789"}
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=60) as web:
            message = {"role": "user", "content": "send it all"}
            done = await web.post("/v1/chat/completions", json={"messages": [message]})
            again = await web.post("/v1/responses", json={"input": "send it all"})
            assert (done.status_code, again.status_code) == (200, 200)
            return done.text + again.text

    settings = {"platforms.api_server.enabled": True}
    text = await run_gateway(treasure, answer, tmp_path, settings, use)
    assert "the end" in text
    assert LEAK.decode() not in text
    outbox = treasure.hermes_home / "cache" / "outbox"
    assert [path.name for path in outbox.iterdir()] == ["waiting.txt"]


async def test_webhook_delivers_no_file_to_a_chat(treasure, tmp_path, monkeypatch):
    """A program calls, and the answer of the agent goes to a chat of the owner."""
    folder = tmp_path / "platform"
    folder.mkdir()
    harness = LocalHarness(folder)
    await harness.platform.listen(harness.socket)
    for name, value in {**harness.variables, "LOCAL_ALLOWED_USERS": "ann"}.items():
        monkeypatch.setenv(name, value)
    answer = treasure.answer(tmp_path, tmp_path / "report.txt")

    async def use(runner: GatewayRunner) -> list[Shown]:
        await harness.says("hello", chat="ann", user="ann")  # so that there is a chat
        ports = [getattr(each.adapter, "port", 0) for each in runner.gateway.supervisors]
        body = msgspec.json.encode({"title": f"x\nMEDIA:{treasure.user_home}/Documents/tax.txt"})
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json", "X-GitHub-Delivery": "d-1",
            "X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}",
        }  # fmt: skip
        url = f"http://127.0.0.1:{max(ports)}/webhooks/one"
        async with httpx2.AsyncClient() as web:
            assert (await web.post(url, content=body, headers=headers)).status_code == 202
        while sum("the end" in each.text for each in await harness.shown("ann")) < 2:
            await asyncio.sleep(0.02)
        return await harness.shown("ann")

    route = {"prompt": "{title}", "deliver": "local", "deliver_extra": {"chat_id": "ann"}}
    extra = {"host": "127.0.0.1", "port": 0, "secret": SECRET, "routes": {"one": route}}
    settings = {
        "platforms.webhook.enabled": True, "platforms.webhook.extra": extra,
        "gateway.owners": ["local:ann"],
    }  # fmt: skip
    shown = await run_gateway(treasure, answer, tmp_path, settings, use)
    await harness.platform.close()
    assert set(names(shown)) <= {"report.txt"}
    assert LEAK.decode() not in "\n".join(each.text + each.raw for each in shown)
    outbox = treasure.hermes_home / "cache" / "outbox"
    assert {path.read_bytes() for path in outbox.glob("*-*")} <= {GOOD}
