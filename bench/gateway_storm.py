"""The gateway killed again and again while people write: each message gets one answer, in order.

    python -m bench.gateway_storm --runs 100

A run is a home of its own, a platform that lives on while gateways die, a scripted model, and some
people who write while the gateway process is killed with SIGKILL at random instants and started
again. What people see at the end is compared with what they wrote.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Step, echo
from hermes.gateway.platforms.local.platform import LocalPlatform
from hermes.gateway.platforms.local.room import Room
from hermes.gateway.platforms.local.wire import Say

GATEWAY = [sys.executable, "-c", "from hermes.cli.main import run; run()", "gateway", "run", "-q"]
CHATS = ("anna", "ben", "carl")
LONGEST = 60.0
"""Seconds until what is not answered counts as lost."""


class Storm(msgspec.Struct, frozen=True):
    """What happens in a run."""

    seed: int
    messages: int = 4
    """Of each person."""
    kills: int = 4
    streaming: bool = False
    tools: bool = False
    """The model calls a tool before it answers."""
    burst: bool = False
    """People do not wait for answers; messages are queued."""


class Outcome(msgspec.Struct, frozen=True):
    storm: Storm
    problems: tuple[str, ...]
    kills: int
    seconds: float


async def run(storm: Storm) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-storm-") as folder, _model(storm) as server:
        root = Path(folder)
        home = root / "home"
        home.mkdir(mode=0o700)
        (home / "config.yaml").write_text(_config(storm, f"{server.url}/v1"))
        platform = LocalPlatform(Room(root / "journal"))
        await platform.listen(root / "socket")
        try:
            kills = await _weather(storm, platform, root)
        finally:
            await platform.close()
        problems = tuple(_problems(platform, storm))
        if problems:
            log = home / "logs" / "agent.log"
            text = log.read_text()[-4000:] if log.is_file() else ""
            problems = (*problems, text)
    return Outcome(storm, problems, kills, time.monotonic() - began)


def _config(storm: Storm, address: str) -> str:
    busy = "queue" if storm.burst else "interrupt"
    return f"""\
model: {{provider: custom, base_url: "{address}", default: lab-model}}
sessions: {{auto_title: false}}
display: {{busy_input_mode: {busy}, tool_progress: "off"}}
streaming: {{enabled: {str(storm.streaming).lower()}, edit_interval: 0.02, buffer_threshold: 5}}
gateway: {{drain_seconds: 1}}
"""


@contextlib.contextmanager
def _model(storm: Storm) -> Iterator[ModelServer]:
    chance = random.Random(storm.seed)

    def answer(request: RecordedRequest) -> Step:
        time.sleep(chance.uniform(0.0, 0.15))
        messages = request.body["messages"]
        if storm.tools and messages[-1]["role"] == "user":
            call = ToolCall(f"call_{len(messages)}", "todo", "{}")
            return Step((Text("Let me see."), call))
        return echo(request)

    with ModelServer(answer) as server:
        yield server


async def _weather(storm: Storm, platform: LocalPlatform, root: Path) -> int:
    """People write while the gateway comes and goes; how often it was killed."""
    chance = random.Random(storm.seed)
    people = [asyncio.create_task(_person(name, storm, platform)) for name in CHATS]
    kills = 0
    async with asyncio.timeout(LONGEST):
        while kills < storm.kills:
            process = await _started(root)
            await asyncio.sleep(chance.uniform(0.3, 1.8))
            process.send_signal(signal.SIGKILL)
            await process.wait()
            kills += 1
        process = await _started(root)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST / 2):
                    await asyncio.gather(*people)
                    await _all_answered(storm, platform)
            await asyncio.sleep(0.3)  # time for what would be one answer too many
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
    return kills


async def _started(root: Path) -> asyncio.subprocess.Process:
    environment = {
        **os.environ,
        "HOME": str(root),
        "HERMES_HOME": str(root / "home"),
        "LOCAL_SOCKET": str(root / "socket"),
        "LOCAL_ALLOWED_USERS": ",".join(CHATS),
    }
    with (root / "gateway.out").open("ab") as out:
        return await asyncio.create_subprocess_exec(
            *GATEWAY, env=environment, stdout=out, stderr=out
        )


async def _person(name: str, storm: Storm, platform: LocalPlatform) -> None:
    chance = random.Random(f"{storm.seed} {name}")
    for number in range(storm.messages):
        platform.say(Say(chat=name, user=name, text=_text(name, number)))
        if storm.burst:
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            continue
        await _until(partial(_has_answer, platform, name, number))


async def _all_answered(storm: Storm, platform: LocalPlatform) -> None:
    await _until(lambda: all(len(_answers(platform, name)) >= storm.messages for name in CHATS))


async def _until(what: Callable[[], bool]) -> None:
    while not what():  # noqa: ASYNC110 - what is shown is only looked at
        await asyncio.sleep(0.02)


def _text(name: str, number: int) -> str:
    return f"{name} says sentence number {number} of this conversation"


def _has_answer(platform: LocalPlatform, name: str, number: int) -> bool:
    return _text(name, number) in _answers(platform, name)


def _answers(platform: LocalPlatform, name: str) -> list[str]:
    return [shown.text for shown in platform.shown(name) if shown.text.startswith(f"{name} says")]


def _problems(platform: LocalPlatform, storm: Storm) -> Iterator[str]:
    for name in CHATS:
        wanted = [_text(name, number) for number in range(storm.messages)]
        seen = _answers(platform, name)
        if seen != wanted:
            yield f"{name} saw {seen}"
        others = {shown.text for shown in platform.shown(name)} - set(wanted)
        if others - {"Let me see."}:
            yield f"{name} saw also {sorted(others)}"


def storms(count: int, seed: int) -> Iterator[Storm]:
    """All kinds in turn."""
    for number in range(count):
        yield Storm(
            seed + number,
            streaming=bool(number & 1),
            tools=bool(number & 2),
            burst=bool(number & 4),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = kills = 0
    for storm in storms(options.runs, options.seed):
        outcome = asyncio.run(run(storm))
        kills += outcome.kills
        if outcome.problems:
            failed += 1
            print(f"{storm}\n" + "\n".join(outcome.problems))
    answers = options.runs * len(CHATS) * Storm(0).messages
    print(f"{options.runs} runs, {kills} kills, {answers} messages: {failed} runs with a problem")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
