"""Kill the gateway repeatedly while users write: each message gets one answer, in order.

    python -m bench.gateway_storm --runs 100
    python -m bench.gateway_storm --shared --kills 60

A run has a new home, a platform that survives the gateway, a scripted model, and some users who
write while the gateway process is killed with SIGKILL at random instants and restarted. At the end
the messages that the users see are compared with those they wrote.

With `--shared`, two or three gateways with the same platform share a PostgreSQL server. Each has a
home and a machine name of its own, so that a gateway learns of the death of another only from the
store. A killed gateway starts again when the others have taken over its chats; the time that takes
is reported. Then turns of the API alternate between two gateways, which must see one conversation.
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
from statistics import median
from typing import Any, Literal

import httpx2
import msgspec

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, echo
from hermes.gateway.process import read_state
from tests.fakes.local.server import ChatLog, LocalServer

START = "import socket; socket.gethostname = lambda: {!r}; from hermes.cli.main import run; run()"
"""Starts a gateway that believes to be on a machine of this name."""
CHATS = ("anna", "ben", "carl")
LOOKING = "Let me see."
LONGEST = 60.0
"""Seconds after which an unanswered message counts as lost."""
MAX_QUEUED = 3  #: Messages of a user that wait for an answer while gateways are killed.
LONGEST_TAKEOVER = 30.0  #: Seconds after which a chat counts as not taken over.


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
    gateways: int = 1
    """With several gateways, users go on writing until the last kill."""
    delivery: Literal["", "all", "one"] = ""
    """With several gateways: whether all of them get a message from the platform, or one."""


class Outcome(msgspec.Struct, frozen=True):
    storm: Storm
    problems: tuple[str, ...]
    kills: int
    seconds: float
    messages: int
    takeovers: tuple[float, ...] = ()
    """Seconds from a kill until another gateway worked on a chat of the killed one."""


async def run(storm: Storm, url: str = "") -> Outcome:
    """Run a storm. `url` is an empty PostgreSQL database, which several gateways need."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-storm-") as folder, _model(storm) as server:
        root = Path(folder)
        platform = LocalServer(ChatLog(root / "journal"), shared=storm.delivery)
        await platform.listen(root / "socket")
        gateways = [
            GatewayProcess(root, f"machine-{number}", _config(storm, f"{server.url}/v1", url))
            for number in range(storm.gateways)
        ]
        done, takeovers = asyncio.Event(), list[float]()
        counts: dict[str, int] = {}
        try:
            async with asyncio.timeout(LONGEST + storm.kills * LONGEST_TAKEOVER):
                if storm.gateways == 1:
                    done.set()
                    users = _start_users(storm, platform, done, counts)
                    kills = await _kill_and_restart(storm, gateways[0])
                else:
                    for each in gateways:
                        await each.start()
                    await _until(lambda: all(each.is_connected for each in gateways))
                    users = _start_users(storm, platform, done, counts)
                    kills = await _kill_some(storm, gateways, url, takeovers)
                    done.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST / 2):
                        await asyncio.gather(*users)
                        await _all_answered(storm, platform, counts)
                await asyncio.sleep(0.3)  # so that a duplicate answer would arrive
        finally:
            for each in gateways:
                await each.end(signal.SIGTERM)
            await platform.close()
        problems = tuple(_problems(platform, storm, counts))
        if problems:
            logs = (each.home / "logs" / "agent.log" for each in gateways)
            problems = (*problems, *(log.read_text()[-4000:] for log in logs if log.is_file()))
    said = sum(count + 2 * len(_undone_numbers(storm, count)) for count in counts.values())
    return Outcome(storm, problems, kills, time.monotonic() - began, said, tuple(takeovers))


def _config(storm: Storm, address: str, url: str) -> str:
    busy = "queue" if storm.burst else "interrupt"
    return f"""\
store: {{url: "{url}"}}
model: {{provider: custom, base_url: "{address}", default: lab-model}}
sessions: {{auto_title: false}}
memory: {{nudge_interval: 0}}
skills: {{creation_nudge_interval: 0}}
display: {{busy_input_mode: {busy}, tool_progress: "off"}}
streaming: {{enabled: {str(storm.streaming).lower()}, edit_interval: 0.02, buffer_threshold: 5}}
gateway: {{drain_seconds: 1}}
"""


@contextlib.contextmanager
def _model(storm: Storm) -> Iterator[ModelServer]:
    chance = random.Random(storm.seed)

    def answer(request: RecordedRequest) -> Step:
        # A kill at a random moment of a turn.
        time.sleep(chance.uniform(0.0, 0.15 if storm.gateways == 1 else 1.0))
        messages = request.body["messages"]
        if storm.tools and messages[-1]["role"] == "user":
            call = ToolCall(f"call_{len(messages)}", "todo", "{}")
            return Step((Text(LOOKING), call))
        return echo(request)

    with ModelServer(answer) as server:
        yield server


class GatewayProcess:
    """A gateway with a home and a machine name of its own."""

    def __init__(self, root: Path, machine: str, config: str, **variables: str) -> None:
        self._root, self.machine, self.home = root, machine, root / machine / "home"
        self.home.mkdir(mode=0o700, parents=True)
        (self.home / "config.yaml").write_text(config)
        self._variables = variables
        self._process: asyncio.subprocess.Process | None = None

    @property
    def output(self) -> Path:
        return self.home.parent / "gateway.out"

    @property
    def is_connected(self) -> bool:
        process, state = self._process, read_state(self.home)
        is_current = process is not None and state is not None and state.pid == process.pid
        adapters = state.adapters if state is not None and is_current else ()
        return any(each.state == "connected" for each in adapters)

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.home.parent),
            "HERMES_HOME": str(self.home),
            "LOCAL_SOCKET": str(self._root / "socket"),
            "LOCAL_ALLOWED_USERS": ",".join(CHATS),
            **self._variables,
        }

    async def start(self) -> None:
        command = [sys.executable, "-c", START.format(self.machine), "gateway", "run", "-q"]
        with self.output.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=self._environment, stdout=out, stderr=out
            )

    async def run(self, *words: str) -> tuple[int | None, str]:
        """Run another command with the same home; return its exit code and output."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", START.format(self.machine), *words),
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is not None:
            raise RuntimeError(self.output.read_text()[-4000:])
        process.send_signal(number)
        await process.wait()


def _start_users(
    storm: Storm, platform: LocalServer, done: asyncio.Event, counts: dict[str, int]
) -> list[asyncio.Task[None]]:
    return [
        asyncio.create_task(_write_messages(name, storm, platform, done, counts)) for name in CHATS
    ]


async def _kill_and_restart(storm: Storm, gateway: GatewayProcess) -> int:
    chance = random.Random(storm.seed)
    for _ in range(storm.kills):
        await gateway.start()
        await asyncio.sleep(chance.uniform(0.3, 1.8))
        await gateway.end(signal.SIGKILL)
    await gateway.start()
    return storm.kills


async def _kill_some(
    storm: Storm, gateways: list[GatewayProcess], url: str, takeovers: list[float]
) -> int:
    """Kill one gateway at a time, of three sometimes two, and start it again when no chat is left
    to it; return the number of kills."""
    # Optional, and only storms with a PostgreSQL server need it.
    import psycopg

    chance, kills = random.Random(storm.seed), 0
    with psycopg.connect(url, autocommit=True) as database:

        def held_by(machines: list[str]) -> dict[str, str]:
            """Return the chats with unanswered messages that gateways hold, and the holders."""
            rows = database.execute(
                "SELECT DISTINCT session_key, owner FROM chats JOIN inbox USING (session_key)"
                " WHERE owner <> '' AND state IN ('new', 'begun', 'working')"
            ).fetchall()
            return {key: owner for key, owner in rows if owner.startswith(tuple(machines))}

        while kills < storm.kills:
            await asyncio.sleep(chance.uniform(0.5, 3.0))
            count = 2 if len(gateways) > 2 and not chance.randrange(3) else 1
            victims = chance.sample(gateways, min(count, storm.kills - kills))
            names = [f"{each.machine}-" for each in victims]
            others = [each for each in gateways if each not in victims]
            await _until(partial(_any_connected, others))
            # Most kills hit a gateway at work; a random instant would often hit an idle one.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(chance.choice((0.0, 5.0, 5.0, 5.0))):
                    await _until(partial(held_by, names))
            for victim in victims:
                await victim.end(signal.SIGKILL)
            kills += len(victims)
            killed, left = time.monotonic(), held_by(names)
            while left and time.monotonic() - killed < LONGEST_TAKEOVER:
                await asyncio.sleep(0.05)
                held = held_by(names)
                over = [key for key, owner in left.items() if held.get(key) != owner]
                takeovers.extend(time.monotonic() - killed for _ in over)
                left = {key: owner for key, owner in left.items() if key not in over}
            takeovers.extend(float("inf") for _ in left)
            for victim in victims:
                await victim.start()
    return kills


def _any_connected(gateways: list[GatewayProcess]) -> bool:
    return any(each.is_connected for each in gateways)


async def _write_messages(
    name: str, storm: Storm, platform: LocalServer, done: asyncio.Event, counts: dict[str, int]
) -> None:
    chance, number = random.Random(f"{storm.seed} {name}"), -1
    while number + 1 < storm.messages or not done.is_set():
        number += 1
        counts[name] = number + 1
        platform.say(name, name, _text(name, number))
        if not storm.burst:
            await _until(partial(_has_answer, platform, name, number))
        if storm.commands and number % 2:
            platform.say(name, name, f"/background {_goal(name, number)}")
            platform.say(name, name, "/undo")
            if not storm.burst:
                await _until(partial(_shows, platform, name, _undo_answer(name, number)))
        if storm.burst:
            await asyncio.sleep(chance.uniform(0.0, 0.5 if storm.gateways == 1 else 4.0))
            if storm.gateways > 1:  # the queue is not longer than what can be answered in the end
                await _until(partial(_has_answer, platform, name, max(number - MAX_QUEUED, 0)))


async def _all_answered(storm: Storm, platform: LocalServer, counts: dict[str, int]) -> None:
    def is_complete(name: str) -> bool:
        # /undo, /background and its result
        wanted = counts[name] + len(_undone_numbers(storm, counts[name])) * 3
        return len([each for each in _texts(platform, name) if each != LOOKING]) >= wanted

    await _until(lambda: all(map(is_complete, CHATS)))


async def _until(what: Callable[[], object]) -> None:
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


def _undone_numbers(storm: Storm, count: int) -> range:
    return range(1, count, 2) if storm.commands else range(0)


def _texts(platform: LocalServer, name: str) -> list[str]:
    return [shown.text for shown in platform.shown(name)]


def _shows(platform: LocalServer, name: str, text: str) -> bool:
    return text in _texts(platform, name)


def _has_answer(platform: LocalServer, name: str, number: int) -> bool:
    return _shows(platform, name, _text(name, number))


def _problems(platform: LocalServer, storm: Storm, counts: dict[str, int]) -> Iterator[str]:
    for name in CHATS:
        numbers = _undone_numbers(storm, counts[name])
        said = [(_text(name, number), number) for number in range(counts[name])]
        undone = [(_undo_answer(name, number), number + 0.5) for number in numbers]
        wanted = [text for text, _ in sorted((*said, *undone), key=itemgetter(1))]
        seen = _texts(platform, name)
        if (in_order := [text for text in seen if text in wanted]) != wanted:
            yield f"{name} saw {in_order}"
        others = [text for text in seen if text not in wanted and text != LOOKING]
        for number in numbers:
            results = [text for text in others if text.endswith(f"\n\n{_goal(name, number)}")]
            if len(results) != 1:
                yield f"{name} saw {len(results)} results of task {number}"
            others = [text for text in others if text not in results]
        started = {text for text in others if text.startswith("Started `bg_")}
        if len(started) != len(numbers) or len(others) != len(started):
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


KEY = "the-key-of-both-servers"
HELD = "a turn that does not end"


class ApiServers:
    """Two gateways with an API server on one PostgreSQL database, and the model behind them."""

    def __init__(self, root: Path, url: str) -> None:
        self._root, self._url = root, url
        self.model = ModelServer(self._answer)
        self.gateways: list[GatewayProcess] = []
        self.ports: list[int] = []
        self._active: dict[str, int] = {}
        self.overlaps = 0  #: Model calls of one conversation at the same time.

    def _answer(self, request: RecordedRequest) -> Step:
        first = next(each for each in request.body["messages"] if each["role"] == "user")
        name = str(first["content"])
        if str(request.body["messages"][-1]["content"]) == HELD:
            return Step((Text("never"),), faults=(Stall(0),))
        self._active[name] = self._active.get(name, 0) + 1
        self.overlaps += self._active[name] > 1
        time.sleep(0.2)
        self._active[name] -= 1
        return echo(request)

    async def start(self) -> None:
        # Needs PostgreSQL, which other storms do not.
        from tests.postgres_server import free_port

        self.model.start()
        for number in range(2):
            port = free_port()
            platform = f"{{enabled: true, extra: {{port: {port}, key: {KEY}}}}}"
            config = _config(Storm(0), f"{self.model.url}/v1", self._url)
            config += f"platforms: {{api_server: {platform}}}\n"
            gateway = GatewayProcess(self._root, f"machine-{number}", config, LOCAL_SOCKET="")
            await gateway.start()
            self.gateways.append(gateway)
            self.ports.append(port)
        await _until(lambda: all(each.is_connected for each in self.gateways))

    async def end(self) -> None:
        for each in self.gateways:
            await each.end(signal.SIGTERM)
        self.model.close()

    async def post(self, number: int, path: str, body: dict[str, Any], session: str = "") -> Any:
        """Send a request to one of the servers and return the answer and its session."""
        headers = {"Authorization": f"Bearer {KEY}"}
        headers |= {"X-Hermes-Session-Id": session} if session else {}
        url = f"http://127.0.0.1:{self.ports[number]}{path}"
        async with httpx2.AsyncClient(timeout=LONGEST) as http:
            answer = await http.post(url, json=body, headers=headers)
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.status_code}: {answer.text[:2000]}")
        return answer.json(), answer.headers["x-hermes-session-id"]

    def history(self) -> list[str]:
        """Return the user messages of the last model call."""
        messages = self.model.calls[-1].body["messages"]
        return [str(each["content"]) for each in messages if each["role"] == "user"]


async def alternate(url: str, turns: int = 6) -> tuple[tuple[str, ...], float]:
    """Let API turns alternate between two servers, run at the same time on both, and go on after a
    server was killed during a turn. Return what was wrong, and the seconds until the other server
    had answered after the kill."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hermes-storm-") as folder:
        servers = ApiServers(Path(folder), url)
        try:
            await servers.start()
            said = [f"alternating {number}" for number in range(turns)]
            sessions = set()
            for number, text in enumerate(said):
                body = {"input": text, "conversation": "alternating"}
                sessions.add((await servers.post(number % 2, "/v1/responses", body))[1])
            if servers.history() != said or len(sessions) != 1:
                problems.append(f"a conversation has {sessions}: {servers.history()}")
            said, session = [f"session {number}" for number in range(turns)], ""
            for number, text in enumerate(said):
                message = {"role": "user", "content": text}
                path, chat = "/v1/chat/completions", {"messages": [message]}
                session = (await servers.post(number % 2, path, chat, session))[1]
            if servers.history() != said:
                problems.append(f"a session has {servers.history()}")
            said = [f"together {number}" for number in range(turns)]
            posts = [
                servers.post(number % 2, "/v1/responses", {"input": text, "conversation": "both"})
                for number, text in enumerate(said)
            ]
            sessions = {name for _, name in await asyncio.gather(*posts)}
            if sorted(servers.history()) != sorted(said) or len(sessions) != 1:
                problems.append(f"simultaneous turns have {sessions}: {servers.history()}")
            if servers.overlaps:
                problems.append(f"{servers.overlaps} turns ran while another one did")
            body, calls = {"input": HELD, "conversation": "alternating"}, len(servers.model.calls)
            held = asyncio.ensure_future(servers.post(0, "/v1/responses", body))
            await _until(lambda: len(servers.model.calls) > calls)
            await servers.gateways[0].end(signal.SIGKILL)
            await asyncio.gather(held, return_exceptions=True)
            killed = time.monotonic()
            body = {"input": "after the kill", "conversation": "alternating"}
            await servers.post(1, "/v1/responses", body)
            seconds = time.monotonic() - killed
            history = "\n".join(servers.history())
            if "alternating 0" not in history or "after the kill" not in history:
                problems.append(f"after a kill the conversation is {servers.history()}")
        finally:
            await servers.end()
    return tuple(problems), seconds


def shared_storms(kills: int, seed: int) -> Iterator[Storm]:
    """Yield storms with two and three gateways in turn, until there are as many kills."""
    number = 0
    while kills > 0:
        yield Storm(
            seed + number,
            kills=min(kills, 10),
            streaming=bool(number & 2),
            tools=bool(number & 2),
            burst=bool(number & 4),
            gateways=2 + number % 2,
            delivery="one" if number & 2 else "all",
        )
        kills, number = kills - 10, number + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="several gateways on PostgreSQL")
    parser.add_argument("--kills", type=int, default=60, help="with --shared: kills in all runs")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    wrong: tuple[str, ...] = ()
    if options.shared:
        # Needs PostgreSQL, which other storms do not.
        from tests.postgres_server import new_server

        server = new_server()
        for storm in shared_storms(options.kills, options.seed):
            with server.database() as url:
                outcomes.append(asyncio.run(run(storm, url)))
            _report(outcomes[-1])
        with server.database() as url:
            wrong, seconds = asyncio.run(alternate(url, 20))
        print("\n".join(wrong) or "alternating API turns: each saw the whole conversation")
        print(f"a killed API server: its conversation was answered after {seconds:.1f} s")
    else:
        for storm in storms(options.runs, options.seed):
            outcomes.append(asyncio.run(run(storm)))
            if outcomes[-1].problems:
                _report(outcomes[-1])
    kills, said = sum(each.kills for each in outcomes), sum(each.messages for each in outcomes)
    failed = sum(bool(each.problems) for each in outcomes)
    print(f"{len(outcomes)} runs, {kills} kills, {said} messages: {failed} runs with a problem")
    if times := sorted(time for each in outcomes for time in each.takeovers):
        print("takeovers: " + " ".join(f"{each:.1f}" for each in times))
        print(f"{len(times)} chats: median {median(times):.1f} s, worst {times[-1]:.1f} s")
    return 1 if failed or wrong else 0


def _report(outcome: Outcome) -> None:
    times = " ".join(f"{each:.1f}" for each in outcome.takeovers)
    print(
        f"{outcome.storm}: {outcome.messages} messages in {outcome.seconds:.0f} s {times}".rstrip()
    )
    print("\n".join(outcome.problems), flush=True)


if __name__ == "__main__":
    sys.exit(main())
