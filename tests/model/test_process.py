"""The process that holds the model: starts, remembers its prompt, and never outlives us."""

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psutil
import pytest

from hermes.app.providers import LocalModel
from hermes.config.home import Home
from hermes.config.settings import LocalModelSettings
from hermes.core.errors import LocalModelError
from hermes.core.messages import Message, System, User
from hermes.core.model import ModelRequest, Usage
from hermes.providers.endpoints import Credential, ModelProfile, Target
from hermes.providers.local.runtime import ModelProcess, PromptPrefixCache
from hermes.providers.transport import make_model_client
from hermes.providers.wire.model import WireModel
from tests.model.conftest import Silent

pytestmark = [pytest.mark.model, pytest.mark.internet]

LONG = System("You answer with one word. " + "The sky is blue and the grass is green. " * 30)


async def start(model: Path, cache: Path) -> ModelProcess:
    return await ModelProcess.start(model, context=1024, threads=1, cache=cache)


async def ask(
    process: ModelProcess,
    client: httpx2.AsyncClient,
    cache: Path,
    messages: tuple[Message, ...] = (LONG, User.say("Say yes.")),
) -> tuple[str, Usage]:
    target = Target(
        provider="local",
        model="m",
        base_url=process.base_url,
        credentials=(Credential("process", process.api_key),),
        profile=ModelProfile(keep_alive=False),
    )
    model = PromptPrefixCache(WireModel(target, client), process, client, cache)
    request = ModelRequest(messages, max_tokens=4, temperature=0)
    reply = await model.call(request, lambda _event: None)
    return reply.message.text, reply.usage


async def test_the_prompt_is_remembered_between_turns_and_between_processes(weights_file, tmp_path):
    async with httpx2.AsyncClient() as client:
        process = await start(weights_file, tmp_path)
        (tmp_path / "prefix-of-an-older-version.bin").write_bytes(b"x")
        text, first = await ask(process, client, tmp_path)
        _, again = await ask(process, client, tmp_path)
        await process.close()
        assert text
        assert first.cache_read == 0
        assert again.cache_read > 0.9 * first.prompt
        assert len(list(tmp_path.glob("prefix-*.bin"))) == 1

        process = await start(weights_file, tmp_path)
        _, restored = await ask(process, client, tmp_path)
        await process.close()
        assert restored.cache_read > 0.9 * first.prompt


async def test_a_prompt_with_other_examples_is_saved_again(weights_file: Path, tmp_path: Path):
    old, new = (
        (System("Be brief."), User.say(f"{text} " * 120)) for text in ("blue sky", "green grass")
    )
    hits = []
    async with httpx2.AsyncClient() as client:
        for messages in (old, new, new):
            process = await start(weights_file, tmp_path)
            _, usage = await ask(process, client, tmp_path, messages)
            await process.close()
            hits.append(usage.hits)
    assert max(hits[:2]) < 0.5
    assert hits[2] > 0.9


async def test_a_short_prompt_is_neither_saved_nor_replaces_a_saved_one(
    weights_file: Path, tmp_path: Path
):
    async with httpx2.AsyncClient() as client:
        process = await start(weights_file, tmp_path)
        await ask(process, client, tmp_path)
        (saved,) = tmp_path.glob("prefix-*.bin")
        await ask(process, client, tmp_path, (System("Be brief."), User.say("Say yes.")))
        await process.close()
    assert [*tmp_path.glob("prefix-*.bin")] == [saved]


async def test_a_damaged_saved_prompt_is_passed_over(weights_file: Path, tmp_path: Path):
    async with httpx2.AsyncClient() as client:
        process = await start(weights_file, tmp_path)
        await ask(process, client, tmp_path)
        (saved,) = tmp_path.glob("prefix-*.bin")
        await process.close()
        saved.write_bytes(saved.read_bytes()[:1000])
        process = await start(weights_file, tmp_path)
        text, usage = await ask(process, client, tmp_path)
        await process.close()
    assert text
    assert usage.cache_read == 0


async def test_strangers_on_this_machine_are_refused(weights_file: Path, tmp_path: Path):
    process = await start(weights_file, tmp_path)
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{process.base_url}/chat/completions", json={"messages": []})
    await process.close()
    assert answer.status_code == 401


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + bytes(5000), b"no model at all"])
async def test_invalid_model_file_is_reported_in_one_line(tmp_path: Path, content: bytes):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(content)
    with pytest.raises(LocalModelError) as caught:
        await start(bad, tmp_path / "cache")
    assert "bad.gguf cannot be used: " in str(caught.value)
    assert "check the input params" not in str(caught.value)
    assert "\n" not in str(caught.value)


PARENT = """
import asyncio, sys
from pathlib import Path
from hermes.providers.local.runtime import PromptPrefixCache as RememberedPrefix
from hermes.providers.local.runtime import ModelProcess
async def main():
    process = await ModelProcess.start(
        Path(sys.argv[1]), context=256, threads=1, cache=Path(sys.argv[2])
    )
    print(process._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_process_ends_when_its_parent_is_killed(weights_file: Path, tmp_path: Path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(weights_file), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert psutil.pid_exists(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


async def test_each_model_of_a_session_gets_its_own_process(weights_file: Path, hermes_home: Path):
    home = Home(hermes_home)
    home.models.mkdir(parents=True)
    for name in ("first", "second"):
        (home.models / f"{name}.gguf").symlink_to(weights_file)
    models = make_model_client(ssl.create_default_context())
    async with httpx2.AsyncClient() as client:
        settings = LocalModelSettings(context_length=256, threads=1)
        local = LocalModel(home, settings, models, client, Silent())
        for name in ("first", "second", "first"):
            await local.ready(Target(provider="local", model=name, base_url=""))
        running = psutil.Process().children()
        await local.close()
    await models.aclose()
    assert len(running) == 2


async def test_two_can_run_at_once(weights_file: Path, tmp_path: Path):
    first, second = await asyncio.gather(
        start(weights_file, tmp_path / "a"), start(weights_file, tmp_path / "b")
    )
    assert first.base_url != second.base_url
    await first.close()
    await second.close()
