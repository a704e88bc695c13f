"""Kill the gateway repeatedly while users write: each message gets one answer, in order.

    python -m bench.gateway_storm --runs 100

A run has a new home, a platform that survives the gateway, a scripted model, and some users who
write while the gateway process is killed with SIGKILL at random instants and restarted. At the end
the messages that the users see are compared with those they wrote.
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
from operator import itemgetter
from pathlib import Path

import msgspec

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Step, echo
from tests.fakes.local.server import ChatLog, LocalServer

GATEWAY = [sys.executable, "-c", "from hermes.cli.main import run; run()", "gateway", "run", "-q"]
CHATS = ("anna", "ben", "carl")
LOOKING = "Let me see."
LONGEST = 60.0
"""Seconds after which an unanswered message counts as lost."""


class Storm(msgspec.Struct, frozen=True):
    """The options of a run."""

    seed: int
    messages: int = 4
    """Messages of each user."""
    kills: int = 4
    streaming: bool = False
    tools: bool = False
    """The model calls a tool before it answers."""
    burst: bool = False
    """Users do not wait for answers; messages are queued."""
    commands: bool = False
    """Every second message is followed by /background and /undo."""


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
        platform = LocalServer(ChatLog(root / "journal"))
        await platform.listen(root / "socket")
        try:
            kills = await _run_and_kill(storm, platform, root)
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
            return Step((Text(LOOKING), call))
        return echo(request)

    with ModelServer(answer) as server:
        yield server


async def _run_and_kill(storm: Storm, platform: LocalServer, root: Path) -> int:
    """Kill and restart the gateway while users write; return the number of kills."""
    chance = random.Random(storm.seed)
    users = [asyncio.create_task(_write_messages(name, storm, platform)) for name in CHATS]
    kills = 0
    async with asyncio.timeout(LONGEST):
        while kills < storm.kills:
            process = await _start_gateway(root)
            await asyncio.sleep(chance.uniform(0.3, 1.8))
            if process.returncode is not None:
                raise RuntimeError((root / "gateway.out").read_text()[-4000:])
            process.send_signal(signal.SIGKILL)
            await process.wait()
            kills += 1
        process = await _start_gateway(root)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST / 2):
                    await asyncio.gather(*users)
                    await _all_answered(storm, platform)
            await asyncio.sleep(0.3)  # so that a duplicate answer would arrive
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
    return kills


async def _start_gateway(root: Path) -> asyncio.subprocess.Process:
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


async def _write_messages(name: str, storm: Storm, platform: LocalServer) -> None:
    chance = random.Random(f"{storm.seed} {name}")
    for number in range(storm.messages):
        platform.say(name, name, _text(name, number))
        if not storm.burst:
            await _until(partial(_has_answer, platform, name, number))
        if storm.commands and number % 2:
            platform.say(name, name, f"/background {_goal(name, number)}")
            platform.say(name, name, "/undo")
            if not storm.burst:
                await _until(partial(_shows, platform, name, _undo_answer(name, number)))
        if storm.burst:
            await asyncio.sleep(chance.uniform(0.0, 0.5))


async def _all_answered(storm: Storm, platform: LocalServer) -> None:
    wanted = storm.messages + len(_undone_numbers(storm)) * 3  # /undo, /background and its result
    await _until(
        lambda: all(
            len([each for each in _texts(platform, name) if each != LOOKING]) >= wanted
            for name in CHATS
        )
    )


async def _until(what: Callable[[], bool]) -> None:
    while not what():  # noqa: ASYNC110 - the platform has no event to wait for
        await asyncio.sleep(0.02)


def _text(name: str, number: int) -> str:
    return f"{name} says sentence number {number} of this conversation"


def _goal(name: str, number: int) -> str:
    return f"{name} wants task {number} done"


def _undo_answer(name: str, number: int) -> str:
    """Return the answer of /undo after message `number`; its count shows a repeated undo."""
    left = number // 2 + 1
    questions = "1 question" if left == 1 else f"{left} questions"
    return f"Taken back from: {_text(name, number)}\n{questions} left."


def _undone_numbers(storm: Storm) -> range:
    return range(1, storm.messages, 2) if storm.commands else range(0)


def _texts(platform: LocalServer, name: str) -> list[str]:
    return [shown.text for shown in platform.shown(name)]


def _shows(platform: LocalServer, name: str, text: str) -> bool:
    return text in _texts(platform, name)


def _has_answer(platform: LocalServer, name: str, number: int) -> bool:
    return _shows(platform, name, _text(name, number))


def _problems(platform: LocalServer, storm: Storm) -> Iterator[str]:
    for name in CHATS:
        said = [(_text(name, number), number) for number in range(storm.messages)]
        undone = [(_undo_answer(name, number), number + 0.5) for number in _undone_numbers(storm)]
        wanted = [text for text, _ in sorted((*said, *undone), key=itemgetter(1))]
        seen = _texts(platform, name)
        if (in_order := [text for text in seen if text in wanted]) != wanted:
            yield f"{name} saw {in_order}"
        others = [text for text in seen if text not in wanted and text != LOOKING]
        for number in _undone_numbers(storm):
            results = [text for text in others if text.endswith(f"\n\n{_goal(name, number)}")]
            if len(results) != 1:
                yield f"{name} saw {len(results)} results of task {number}"
            others = [text for text in others if text not in results]
        started = {text for text in others if text.startswith("Started `bg_")}
        if len(started) != len(_undone_numbers(storm)) or len(others) != len(started):
            yield f"{name} saw also {sorted(others)}"


def storms(count: int, seed: int) -> Iterator[Storm]:
    """Yield `count` storms with all combinations of options in turn."""
    for number in range(count):
        yield Storm(
            seed + number,
            streaming=bool(number & 1),
            tools=bool(number & 2),
            burst=bool(number & 4),
            commands=bool(number & 8),
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
    each = [storm.messages + 2 * len(_undone_numbers(storm)) for storm in storms(options.runs, 0)]
    said = sum(each) * len(CHATS)
    print(f"{options.runs} runs, {kills} kills, {said} messages: {failed} runs with a problem")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
