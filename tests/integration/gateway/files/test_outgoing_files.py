"""Whatever the model writes, only files of the conversation's own folder are sent."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Step
from hermes.gateway.runner import GatewayRunner
from hermes.gateway.session_keys import memory_scope
from hermes.memory.notes import safe_name
from hermes.sdk.platforms import SessionSource
from hermes.sdk.testing.platforms.harness import File, Harness, Shown
from hermes_plugins.platforms.slack import client as slack_options
from tests.fakes.telegram.harness import TelegramHarness
from tests.integration.gateway.files.conftest import LEAK, Treasure
from tests.integration.platforms.local.local_harness import LocalHarness
from tests.integration.platforms.slack.harness import SlackHarness

SECONDS = 30.0
GOOD = b"made by the agent"
OUTSIDE = "is outside this conversation's folder"


@pytest.fixture(params=["local", "telegram", "slack"])
async def harness(request, tmp_path, monkeypatch):
    folder = tmp_path / "platform"
    folder.mkdir()
    match request.param:
        case "local":
            made: Any = LocalHarness(folder)
            await made.platform.listen(made.socket)
            close = made.platform.close
        case "telegram":
            made = await TelegramHarness.start(folder)
            close = made.close
        case _:
            made = await SlackHarness.start(folder)
            close = made.close
            monkeypatch.setattr(slack_options, "BASE_URL", made.fake.base_url)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    prefix = made.manifest.env_prefix or made.manifest.name.upper()
    allowed = ",".join(made.user_id(name) for name in ("ann", "bob"))
    monkeypatch.setenv(f"{prefix}_ALLOWED_USERS", allowed)
    monkeypatch.setenv("GATEWAY_ALLOW_ALL_USERS", "true")
    yield made
    await close()


class Scene:
    """A gateway on one platform: ann is its owner, bob a member, everybody else a guest."""

    def __init__(self, harness: Harness, treasure: Treasure, work: Path) -> None:
        self.harness, self.treasure, self.work = harness, treasure, work
        self.platform = harness.manifest.name

    def folder(self, user: str) -> Path:
        """Where the conversation of `user` works."""
        if user == "ann":
            return self.work
        source = SessionSource(self.platform, "any", user_id=self.harness.user_id(user))
        name = safe_name(memory_scope(source).user)
        folder = self.treasure.hermes_home / "workspaces" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def ask(
        self, user: str, steps: list[Any], *, files: tuple[File, ...] = (), **settings: Any
    ) -> list[Shown]:
        """What `user` is shown until a message holds "the end"."""
        home = Home(self.treasure.hermes_home)
        with ModelServer(steps) as server:
            said = {
                "model.provider": "custom", "model.base_url": f"{server.url}/v1",
                "model.default": "lab-model", "sessions.auto_title": False,
                "display.tool_progress": "off", "gateway.drain_seconds": 0,
                "gateway.cwd": str(self.work), "gateway.terminal": "local",
                "gateway.owners": [f"{self.platform}:{self.harness.user_id('ann')}"],
                "approvals.mode": "off", **settings,
            }  # fmt: skip
            runner = GatewayRunner(home, load(home, said), note=print, quiet=True)
            task = asyncio.create_task(runner.run())
            try:
                async with asyncio.timeout(SECONDS):
                    while not runner.began.is_set() or not runner.gateway.connections.accounts():
                        assert not task.done(), task.result()
                        await asyncio.sleep(0.01)
                    await self.harness.says("send it all", chat=user, user=user, files=files)
                    return await self._answer(runner, user)
            finally:
                runner.stop()
                await task

    async def _answer(self, runner: GatewayRunner, user: str) -> list[Shown]:
        while True:
            counts = await runner.gateway.store.queue_counts()
            busy = any(each.waiting_in or each.waiting_out for each in counts)
            shown = await self.harness.shown(user)  # after the counts: by then all was sent
            if not busy and any("the end" in each.text for each in shown):
                return shown
            await asyncio.sleep(0.02)

    def copies(self) -> list[bytes]:
        """The contents that were prepared for sending."""
        folder = self.treasure.hermes_home / "cache" / "outbox"
        found = [path for path in folder.iterdir() if path.name != "waiting.txt"]
        return [path.read_bytes() for path in found]

    def uploads(self) -> list[bytes]:
        """The contents that reached the platform, where the fake keeps them."""
        match self.harness:
            case TelegramHarness():
                return [data for _, data in self.harness.fake.world.files.values()]
            case SlackHarness():
                return [each["_data"] for each in self.harness.fake.world.files.values()]
            case _:
                return self.copies()


@pytest.fixture
def scene(harness, treasure, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    return Scene(harness, treasure, work)


def names(shown: list[Shown]) -> list[str]:
    return [name for each in shown for name in each.media]


def check_refusals(shown: list[Shown], reason: str) -> None:
    text = "\n".join(each.text for each in shown)
    assert "MEDIA:" not in text
    assert text.count("file not sent: ") >= 60
    assert reason in text
    assert LEAK.decode() not in text


@pytest.mark.parametrize("user", ["ann", "bob"])
async def test_only_files_of_the_own_folder_are_sent(scene, user):
    folder = scene.folder(user)
    answer = scene.treasure.answer(folder, folder / "report.txt")
    shown = await scene.ask(user, [answer])
    assert names(shown) == ["report.txt"]
    check_refusals(shown, OUTSIDE)
    assert scene.copies() == scene.uploads() == [GOOD]


async def test_guests_get_no_files(scene):
    folder = scene.folder("carl")
    answer = scene.treasure.answer(folder, folder / "report.txt")
    shown = await scene.ask("carl", [answer])
    assert names(shown) == []
    check_refusals(shown, "guests receive no files")
    assert scene.copies() == scene.uploads() == []


async def test_home_as_working_folder_keeps_keys_and_hidden_files(scene):
    """The default of `gateway.cwd` is the owner's home."""
    home = scene.treasure.user_home
    scene.work = home
    hidden = [
        ".bashrc", ".bash_history", ".ssh/id_rsa", ".aws/credentials", "proj/.env", ".netrc",
        ".mozilla/profile/cookies.sqlite", ".hermes/history", ".hermes/logs/agent.log",
        ".hermes/memories/USER.md", ".hermes/backups/x.zip", ".hermes/state.db",
        ".hermes/workspaces/somebody_else/x.txt", ".hermes/cache/media/0123456789abcdef/photo.png",
    ]  # fmt: skip
    (home / "report.txt").write_bytes(GOOD)
    lines = [f"MEDIA:{home}/{name}" for name in (*hidden, "report.txt")]
    shown = await scene.ask("ann", ["\n".join([*lines, "the end"])])
    assert names(shown) == ["report.txt"]
    assert scene.copies() == [GOOD]


async def test_file_made_by_a_tool_is_sent(scene):
    path = scene.folder("bob") / "plots" / "a b.txt"
    arguments = f'{{"path": "{path}", "content": "{GOOD.decode()}"}}'
    write = Step((ToolCall("c1", "write_file", arguments),))
    shown = await scene.ask("bob", [write, f"Here.\nMEDIA:{path}\nthe end"])
    assert names(shown) == ["a b.txt"]
    assert scene.copies() == [GOOD]


async def test_file_of_the_chat_can_be_sent_back_there_only(scene):
    paths: list[str] = []
    came = File("document", "notes.csv", b"a,b\n1,2\n")

    def answer(request: Any) -> str:
        text = str(request.body["messages"][-1]["content"])
        path = text.partition("[document: ")[2].partition("]")[0]
        paths.append(path)
        return f"Here.\nMEDIA:{path}\nthe end"

    shown = await scene.ask("bob", answer, files=(came,))  # type: ignore[arg-type]
    assert names(shown)[-1].endswith("notes.csv")
    assert scene.copies() == [came.data]
    shown = await scene.ask("ann", [f"Here.\nMEDIA:{paths[0]}\nthe end"])
    assert names(shown) == []
    assert OUTSIDE in shown[-1].text


async def test_send_message_follows_the_same_rule(scene):
    """The tool sends into another chat: the owner's."""
    folder = scene.folder("bob")
    text = scene.treasure.answer(folder, folder / "report.txt")
    await scene.ask("ann", ["hello, the end"])  # so that there is a chat to write to
    target = f"{scene.platform}:{scene.harness.chat_id('ann')}"
    arguments = json.dumps({"target": target, "message": text})
    tell = Step((ToolCall("c1", "send_message", arguments),))
    settings = {"approvals.effects": {"send": "allow"}}
    await scene.ask("bob", [tell, Step((Text("the end"),))], **settings)
    shown = await scene.harness.shown("ann")
    assert names(shown) == ["report.txt"]
    check_refusals(shown, OUTSIDE)
    assert scene.copies() == [GOOD]


@pytest.mark.parametrize("harness", ["local"], indirect=True)
@pytest.mark.requires("bwrap")
async def test_a_sandbox_sends_from_its_own_folder(scene):
    folder = scene.folder("bob")
    answer = scene.treasure.answer(folder, folder / "report.txt")
    command = json.dumps({"command": f"printf made > {folder}/made.txt"})
    make = Step((ToolCall("c1", "terminal", command),))
    answer = answer.replace("the end", f"MEDIA:{folder}/made.txt\nMEDIA:/tmp/made.txt\nthe end")
    shown = await scene.ask("bob", [make, answer], **{"gateway.terminal": "sandbox"})
    assert names(shown) == ["report.txt", "made.txt"]
    check_refusals(shown, OUTSIDE)


async def test_replaced_file_does_not_change_what_is_sent(scene):
    """The answer is stored, and the file is swapped before the platform takes it."""
    folder = scene.folder("bob")
    good = folder / "report.txt"
    good.write_bytes(GOOD)
    scene.harness.trouble("rate_limited", 2)
    task = asyncio.create_task(scene.ask("bob", [f"MEDIA:{good}\nthe end"]))
    while not any((scene.treasure.hermes_home / "cache" / "outbox").glob("*-report.txt")):
        await asyncio.sleep(0)
    good.unlink()
    good.symlink_to("/proc/self/environ")
    shown = await task
    assert names(shown) == ["report.txt"]
    assert scene.uploads() == [GOOD]
