"""Environments in the documented form, run as scripts with real tools and a scripted model."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes.core.errors import BackendUnavailable, ToolUnknown
from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, Refuse, Step
from tests.unit.envs.atropos_server import AtroposServer
from tests.unit.envs.token_server import SAMPLED, TokenServer

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "documented_environment" / "word_count_env.py"
COUNTS = {"hello": 1, "roses": 6, "so": 2}


def shell(command: str, number: int = 1) -> ToolCall:
    return ToolCall(f"c{number}", "terminal", json.dumps({"command": command}))


def count_words(request: Any) -> Any:
    """The model: it writes the number of words, then ends."""
    messages = request.body["messages"]
    if messages[-1]["role"] == "tool":
        return "Done."
    first = messages[-1]["content"].split("\n\n")[1].split()[0]
    return [Thinking("I count."), shell(f"echo {COUNTS[first]} > count.txt")]


def command(*arguments: str, url: str, script: Path = SCRIPT) -> list[str]:
    given = ["--openai.base_url", f"{url}/v1", "--env.use_wandb", "false"]
    return [sys.executable, "-m", "hermes", "run", str(script), *arguments, *given]


def run(folder: Path, *arguments: str, url: str, script: Path = SCRIPT) -> Any:
    return subprocess.run(
        command(*arguments, url=url, script=script),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# The three modes


def test_evaluation_writes_samples_and_metrics_and_does_not_repeat_finished_items(
    work: Path,
) -> None:
    with ModelServer(count_words) as server:
        first = run(work, "evaluate", url=server.url)
        calls = len(server.calls)
        again = run(work, "evaluate", url=server.url)
        assert len(server.calls) == calls == 6
        other = run(work, "evaluate", "--env.agent_temperature", "0.5", url=server.url)
        assert len(server.calls) == 12, "another temperature gives another result"
    assert [first.returncode, again.returncode, other.returncode] == [0, 0, 0], first.stderr
    folder = work / "evals" / "word-count"
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["metrics"]["eval/mean_reward"] == 1.0
    assert metrics["metrics"]["eval/scored"] == 3
    samples = lines(folder / "samples.jsonl")
    assert len(samples) == 6
    assert {sample["task"] for sample in samples} == {"one", "poem", "two"}
    assert samples[0]["messages"][-1]["content"] == "Done."
    assert samples[0]["finished_naturally"]
    assert "3 items of 3 already have a score" in again.stderr


def test_process_writes_a_line_for_each_rollout(work: Path) -> None:
    with ModelServer(count_words) as server:
        done = run(
            work, "process", "--env.total_steps", "2", "--env.data_path_to_save_groups",
            "out/groups.jsonl", url=server.url,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rollouts = lines(work / "out" / "groups.jsonl")
    assert [each["reward"] for each in rollouts] == [1.0] * 4
    assert sorted(each["metadata"]["task"] for each in rollouts) == ["one", "one", "poem", "poem"]
    roles = [message["role"] for message in rollouts[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert set(rollouts[0]["masks"]) == {-100}, "placeholders must not be trained on"
    assert not (work / "out" / "groups.failures.jsonl").exists()


def test_failure_of_the_provider_is_recorded_and_not_scored(work: Path) -> None:
    def refuse_poems(request: Any) -> Any:
        if "roses" in json.dumps(request.body["messages"]):
            return Step((), faults=(Refuse("unauthorized"),))
        return count_words(request)

    with ModelServer(refuse_poems) as server:
        done = run(
            work, "process", "--env.total_steps", "2", "--env.data_path_to_save_groups", "g.jsonl",
            url=server.url,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [each["metadata"]["task"] for each in lines(work / "g.jsonl")] == ["one", "one"]
    failures = lines(work / "g.failures.jsonl")
    assert [each["task"] for each in failures] == ["poem", "poem"]
    assert {each["failure"]["boundary"] for each in failures} == {"provider"}
    assert {each["score"] for each in failures} == {None}
    assert "poem: not scored (provider:" in done.stderr


def test_run_without_any_score_is_an_error(work: Path) -> None:
    with ModelServer(lambda _request: Step((), faults=(Refuse("unauthorized"),))) as server:
        done = run(work, "evaluate", url=server.url)
    assert done.returncode == 1
    assert "nothing was scored" in done.stderr
    assert "Traceback" not in done.stderr
    samples = lines(work / "evals" / "word-count" / "samples.jsonl")
    assert [each["score"] for each in samples] == [None] * 3
    report = json.loads((work / "evals" / "word-count" / "metrics.json").read_text())
    assert report["metrics"]["eval/mean_reward"] is None


def alternate() -> Callable[[Any], Any]:
    """A model that is right in every second rollout, so that the scores of a group differ."""
    wrong = iter([False, True] * 1000)

    def answer(request: Any) -> Any:
        messages = request.body["messages"]
        if messages[-1]["role"] == "user" and next(wrong):
            return "I do not know."
        return count_words(request)

    return answer


def served(folder: Path, *more: str, model: ModelServer, api: AtroposServer) -> Any:
    given = ["--env.rollout_server_url", api.url, "--env.max_num_workers", "1", *more]
    words = command("serve", *given, url=model.url)
    return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_serve_sends_groups_until_the_trainer_has_its_steps(work: Path) -> None:
    with (
        ModelServer(alternate()) as model,
        AtroposServer() as api,
        served(work, "--env.include_messages", "true", model=model, api=api) as process,
    ):
        assert process.stderr is not None
        assert "wait for trainer to start" in process.stderr.readline()
        api.register(batch_size=4, num_steps=2)
        batches: list[Any] = []
        while process.poll() is None:
            if sum(len(each.tokens) for each in api.queue) >= 4:
                batches.append(api.batch())
            threading.Event().wait(0.05)
        said = process.stderr.read()
    assert process.returncode == 0, said
    assert len(batches) == 2
    first = batches[0][0]
    assert sorted(first.scores) == [0.0, 1.0]
    assert first.env_id == 0
    assert [message["role"] for message in first.messages[0]][:2] == ["system", "user"]
    assert api.environments[0]["desired_name"] == "word-count"
    assert api.disconnected == [0]


def test_serve_sends_no_group_of_equal_scores(work: Path) -> None:
    with ModelServer(count_words) as model, AtroposServer() as api:
        api.register(batch_size=4, num_steps=1)
        with served(work, model=model, api=api) as process:
            while len(model.calls) < 12:
                threading.Event().wait(0.05)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 130
    assert api.groups == []
    assert api.disconnected == [0], "also after a signal"


def test_tokens_of_a_vllm_server_are_sent_with_masks_and_logprobs(work: Path) -> None:
    call = '<tool_call>\n{"name": "terminal", "arguments": {"command": "echo 1 > count.txt"}}'
    replies = [f"{call}\n</tool_call>", "Done."]
    with TokenServer(replies) as server:
        done = run(
            work, "process", "--env.total_steps", "1", "--env.group_size", "1",
            "--openai.server_type", "vllm", "--openai.health_check", "false",
            "--env.tool_call_parser", "hermes", "--env.data_path_to_save_groups", "g.jsonl",
            url=server.url,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (rollout,) = lines(work / "g.jsonl")
    assert rollout["reward"] == 1.0
    tokens, masks = rollout["tokens"], rollout["masks"]
    logprobs = rollout["inference_logprobs"]
    assert len(tokens) == len(masks) == len(logprobs)
    assert [mask for mask in masks if mask != -100] == [
        token for token, mask in zip(tokens, masks, strict=True) if mask != -100
    ]
    written = [token for token, mask in zip(tokens, masks, strict=True) if mask != -100]
    assert "".join(chr(each - SAMPLED) for each in written if each < 5_000_000) == "".join(replies)
    assert all(
        (value == 1.0) == (mask == -100) for value, mask in zip(logprobs, masks, strict=True)
    )


# Interruptions


def test_interrupt_keeps_finished_samples_and_leaves_no_process(work: Path) -> None:
    marker = work / "pid"

    def answer(request: Any) -> Any:
        if "roses" in json.dumps(request.body["messages"]):
            return shell(f"echo $$ > {marker}; sleep 300")
        return count_words(request)

    samples = work / "evals" / "word-count" / "samples.jsonl"
    with (
        ModelServer(answer) as server,
        subprocess.Popen(
            command("evaluate", url=server.url), cwd=work, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stderr is not None
        for _ in range(2):
            assert process.stderr.readline().endswith(": 1.0\n")
        while not marker.exists() or not marker.read_text().strip():
            threading.Event().wait(0.05)
        pid = int(marker.read_text())
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        process.wait(60)
    assert process.returncode == 130, said
    assert "what was written until now is kept" in said
    assert "Traceback" not in said
    assert sorted(each["task"] for each in lines(samples)) == ["one", "two"]
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)
    assert not psutil.pid_exists(pid)

    with samples.open("a") as file:
        file.write('{"fingerprint": "torn')
    with ModelServer(count_words) as server:
        again = run(work, "evaluate", url=server.url)
        assert len(server.calls) == 2, "only the item without a score"
    assert again.returncode == 0, again.stderr
    assert sorted(each["task"] for each in lines(samples)) == ["one", "poem", "two"]


# Rewards

MEETING = '''
from environments.hermes_base_env import HermesAgentBaseEnv, HermesAgentEnvConfig
from atroposlib.envs.server_handling.server_manager import APIServerConfig


class MeetingEnv(HermesAgentBaseEnv):
    """Each reward waits for the other one."""

    name = "meeting"

    async def setup(self):
        self.eval_items = [{"id": "a", "other": "b"}, {"id": "b", "other": "a"}]

    def format_prompt(self, item):
        return f"Say hello to {item['other']}."

    async def compute_reward(self, item, result, ctx):
        here = f"FOLDER/{item['id']}"
        there = f"FOLDER/{item['other']}"
        wait = f"for i in $(seq 300); do [ -e {there} ] && exit; sleep 0.1; done; exit 1"
        met = ctx.terminal(f"(touch {here}; {wait})", timeout=60)
        reply = await self.server.chat_completion(messages=[{"role": "user", "content": "judge"}])
        assert ctx.read_file("missing")["error"]
        return float(met["exit_code"] == 0 and reply.choices[0].message.content == "Hello.")


MeetingEnv.cli()
'''


ALONE = """
from types import SimpleNamespace
from environments.hermes_base_env import HermesAgentBaseEnv


class AloneEnv(HermesAgentBaseEnv):
    name = "alone"
    reward_in_thread = False

    async def setup(self):
        self.eval_items, self.server = ["a", "b", "broken"], self

    async def chat_completion(self, messages, tools, temperature, max_tokens):
        if messages[-1]["content"] == "broken":
            raise ConnectionError("the line is cut")
        assert tools and temperature == 1.0
        message = SimpleNamespace(model_dump=lambda: {"role": "assistant", "content": "Fine."})
        choice = SimpleNamespace(message=message, finish_reason="stop")
        return SimpleNamespace(choices=[choice], usage=None)

    async def compute_reward(self, item, result, ctx):
        assert ctx.terminal("echo hi")["output"] == "hi\\n"
        return float(result.messages[-1]["content"] == "Fine.")


AloneEnv.cli()
"""


def test_server_and_rewards_of_the_script_may_share_its_event_loop(work: Path) -> None:
    script = work / "alone.py"
    script.write_text(ALONE)
    done = run(
        work, "evaluate", "--openai.health_check", "false", url="http://127.0.0.1:9", script=script
    )
    assert done.returncode == 0, done.stderr
    samples = {each["item"]: each for each in lines(work / "evals" / "alone" / "samples.jsonl")}
    assert [samples[name]["score"] for name in ("a", "b", "broken")] == [1.0, 1.0, None]
    assert samples["broken"]["failure"]["boundary"] == "provider"
    assert len(samples["broken"]["retried"]) == 2


WANDB = """
import json, pathlib
def init(**options): write("init", options["name"])
def log(metrics, step): write("log", metrics)
def write(*line):
    with pathlib.Path("wandb.jsonl").open("a") as file: file.write(json.dumps(line) + "\\n")
"""


def test_metrics_go_to_wandb_where_it_is_installed(work: Path) -> None:
    script = work / "own_env.py"
    script.write_text(SCRIPT.read_text())
    (work / "wandb.py").write_text(WANDB)
    with ModelServer(count_words) as server:
        words = command("evaluate", url=server.url, script=script)[:-2]  # without use_wandb false
        done = subprocess.run(words, cwd=work, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (_, name), (_, metrics) = lines(work / "wandb.jsonl")
    assert name == "word-count"
    assert metrics["eval/mean_reward"] == 1.0


def test_rewards_that_wait_do_not_hold_up_each_other(work: Path) -> None:
    script = work / "meeting.py"
    script.write_text(MEETING.replace("FOLDER", str(work)))
    with ModelServer(lambda _request: "Hello.") as server:
        done = run(
            work, "evaluate", "--env.enabled_toolsets", "terminal,file", url=server.url,
            script=script,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    samples = lines(work / "evals" / "meeting" / "samples.jsonl")
    assert [each["score"] for each in samples] == [1.0, 1.0], done.stderr


# `environments.tool_context`


@pytest.fixture
def context(work: Path, hermes_home: Path) -> Iterator[Any]:
    from environments.tool_context import ToolContext

    made = ToolContext("task-1")
    yield made
    made.cleanup()


def test_context_works_in_the_place_of_its_task(context: Any, work: Path) -> None:
    from model_tools import handle_function_call

    handle_function_call("terminal", {"command": "mkdir -p inner && cd inner"}, "task-1")
    assert context.terminal("basename $PWD; exit 3") == {"exit_code": 3, "output": "inner\n"}
    context.terminal("export NAME=value")
    assert context.terminal("echo $NAME")["output"] == "value\n"
    assert context.write_file("a.txt", "one\ntwo\n") == {"success": True}
    assert (work / "inner" / "a.txt").read_text() == "one\ntwo\n"
    assert context.read_file("a.txt") == {"content": "one\ntwo\n"}
    failed = context.read_file("missing.txt")
    assert failed["content"] == ""
    assert "missing.txt" in failed["error"]
    found = context.search("tw.", ".")
    assert found["total_count"] == 1
    assert (found["matches"][0]["line"], found["matches"][0]["content"]) == (2, "two")
    assert context.call_tool("read_file", {"path": "a.txt"})["total_lines"] == 2
    assert "error" in context.call_tool("read_file", {"path": "missing.txt"})


def test_files_and_folders_are_carried_in_and_out(context: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "run.sh").write_text("echo ran\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "data.bin").write_bytes(bytes(range(256)))
    assert context.upload_dir(source, "put") == {"success": True}
    assert context.terminal("put/deep/run.sh")["output"] == "ran\n"
    assert context.terminal("ls -A put")["output"].split() == ["data.bin", "deep"]
    assert context.download_dir("put", tmp_path / "got") == {"success": True}
    assert (tmp_path / "got" / "data.bin").read_bytes() == bytes(range(256))
    assert (tmp_path / "got" / "deep" / "run.sh").stat().st_mode & 0o100
    assert context.upload_file(source / "data.bin", "b.bin") == {"success": True}
    assert context.download_file("b.bin", tmp_path / "new" / "b.bin") == {"success": True}
    assert (tmp_path / "new" / "b.bin").stat().st_size == 256
    assert not context.upload_dir(tmp_path / "nothing", "x")["success"]
    assert "error" in context.download_dir("nothing", tmp_path / "y")
    assert "error" in context.upload_file(tmp_path / "nothing", "x")


def test_cleanup_ends_the_processes_of_the_task(context: Any) -> None:
    context.call_tool("terminal", {"command": "echo $$ > pid; sleep 300", "background": True})
    context.terminal("while [ ! -s pid ]; do sleep 0.05; done")
    pid = int(context.read_file("pid")["content"])
    assert psutil.pid_exists(pid)
    context.cleanup()
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)
    assert not psutil.pid_exists(pid)


def test_missing_tools_are_named(context: Any) -> None:
    with pytest.raises(ToolUnknown, match="browser tools are not part of this version"):
        context.browser_navigate("https://example.com")
    with pytest.raises(ToolUnknown, match="there is no tool 'nothing'"):
        context.call_tool("nothing", {})


def test_place_that_cannot_be_used_is_remembered_by_the_context(
    work: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from environments.tool_context import ToolContext

    monkeypatch.setenv("TERMINAL_ENV", "ssh")
    monkeypatch.setenv("TERMINAL_SSH_HOST", "127.0.0.1")
    monkeypatch.setenv("TERMINAL_SSH_USER", "nobody")
    monkeypatch.setenv("TERMINAL_SSH_PORT", "9")
    context = ToolContext("task-2")
    with pytest.raises(BackendUnavailable):
        context.terminal("true")
    assert isinstance(context.failure, BackendUnavailable)


# `environments.agent_loop`


def loop_at(server: ModelServer, toolsets: Sequence[str] = ("terminal",), **more: Any) -> Any:
    from atroposlib.envs.server_handling.server_manager import APIServerConfig, ServerManager
    from model_tools import get_tool_definitions

    from environments.agent_loop import HermesAgentLoop

    manager = ServerManager([APIServerConfig(base_url=f"{server.url}/v1", model_name="lab-model")])
    schemas = get_tool_definitions(toolsets, quiet_mode=True)
    names = {schema["function"]["name"] for schema in schemas}
    return HermesAgentLoop(manager, schemas, names, **more)


async def test_loop_starts_from_the_given_messages_and_reports_what_happened(
    work: Path, hermes_home: Path
) -> None:
    from environments.tool_context import ToolContext

    script = [
        [Thinking("Two calls."), shell("echo one > a"), shell("echo two > b", 2)],
        [ToolCall("c3", "no_such_tool", "{}"), ToolCall("c4", "terminal", '{"command": ')],
        [Text("I tidy up."), shell("rm -rf a.old", 5), shell("mkfs.ext4 /dev/no-such-disk", 6)],
        "All done.",
    ]
    given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
    with ModelServer(script) as server:
        loop = loop_at(server, task_id="loop", temperature=0.3, extra_body={"top_k": 5})
        result = await loop.run(given)
    first = server.calls[0].body
    assert first["messages"] == given
    assert (first["temperature"], first["top_k"]) == (0.3, 5)
    assert {tool["function"]["name"] for tool in first["tools"]} == {"terminal", "process"}
    assert (result.turns_used, result.finished_naturally) == (4, True)
    assert result.reasoning_per_turn == ["Two calls.", None, None, None]
    assert result.messages[:2] == given
    assert result.messages[-1]["content"] == "All done."
    errors = [(each.turn, each.tool_name) for each in result.tool_errors]
    assert errors == [(2, "no_such_tool"), (2, "terminal"), (3, "terminal")]
    assert "there is no tool" in result.tool_errors[0].error
    assert "no approval can lift this" in result.tool_errors[2].error
    context = ToolContext("loop")
    assert context.terminal("cat a b")["output"] == "one\ntwo\n"
    context.cleanup()


async def test_loop_ends_at_the_largest_number_of_turns(work: Path, hermes_home: Path) -> None:
    with ModelServer([shell("echo 1"), shell("echo 2")]) as server:
        result = await loop_at(server, max_turns=2).run([{"role": "user", "content": "Go."}])
    assert (result.turns_used, result.finished_naturally) == (2, False)


async def test_calls_of_a_turn_run_at_the_same_time(work: Path, hermes_home: Path) -> None:
    from tools.registry import registry

    both = threading.Barrier(2, timeout=30)

    def meet(_args: Any, **_more: Any) -> str:
        return json.dumps({"place": both.wait()})

    registry.register("meet", "meeting", {"description": "Wait for another call."}, meet)
    script = [[ToolCall("c1", "meet", "{}"), ToolCall("c2", "meet", "{}")], "Done."]
    with ModelServer(script) as server:
        loop = loop_at(server, toolsets=["meeting"])
        result = await loop.run([{"role": "user", "content": "Go."}])
    assert result.tool_errors == []
    places = [json.loads(each["content"])["place"] for each in result.messages[2:4]]
    assert sorted(places) == [0, 1]


async def test_shutdown_of_the_tools_stops_the_loop(work: Path, hermes_home: Path) -> None:
    from environments.agent_loop import _tool_executor

    marker = work / "pid"
    with ModelServer([shell(f"echo $$ > {marker}; sleep 300")]) as server:
        running = asyncio.ensure_future(loop_at(server).run([{"role": "user", "content": "Go."}]))
        while not marker.exists() or not marker.read_text().strip():
            await asyncio.sleep(0.05)
        _tool_executor.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(asyncio.CancelledError):
            await running
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(marker.read_text())).wait(10)
    assert not psutil.pid_exists(int(marker.read_text()))


def test_tools_of_a_group_follow_the_configuration(work: Path, hermes_home: Path) -> None:
    from atroposlib.envs.server_handling.server_manager import APIServerConfig

    from environments.hermes_base_env import HermesAgentBaseEnv, HermesAgentEnvConfig

    def names(**config: Any) -> set[str]:
        env = HermesAgentBaseEnv(HermesAgentEnvConfig(**config), [APIServerConfig()])
        schemas, found = env._resolve_tools_for_group()
        assert {schema["function"]["name"] for schema in schemas} == found
        return found

    assert names(enabled_toolsets=["terminal"]) == {"terminal", "process"}
    assert {"terminal", "read_file", "patch"} <= names()
    assert not {"read_file", "patch"} & names(disabled_toolsets=["file"])
    assert names(distribution="terminal_only") == {"terminal", "process"}


async def test_managed_server_records_tokens(work: Path, hermes_home: Path) -> None:
    from atroposlib.envs.server_handling.server_manager import APIServerConfig, ServerManager

    with TokenServer(["Two.", "Three."]) as server:
        manager = ServerManager([APIServerConfig(base_url=server.url, server_type="vllm")])
        async with manager.managed_server() as managed:
            messages = [{"role": "user", "content": "1 + 1?"}]
            reply = await managed.chat_completion(messages=messages)
            message = reply.choices[0].message
            assert message.content == "Two."
            more = [*messages, message.model_dump(), {"role": "user", "content": "And one more?"}]
            await managed.chat_completion(messages=more, temperature=0.5)
            (node,) = managed.get_state()["nodes"]
        await manager.close()
    assert len(node.tokens) == len(node.masked_tokens) == len(node.logprobs)
    sampled = [token for token in node.masked_tokens if token != -100]
    text = "".join(chr(each - SAMPLED) for each in sampled if each < 5_000_000)
    assert text == "Two.Three."
    assert node.metadata["finish_reason"] == "stop"


# The shipped scripts


def test_shipped_script_evaluates_from_any_folder(work: Path) -> None:
    script = ROOT / "environments" / "terminal_test_env" / "terminal_test_env.py"
    with ModelServer(lambda _request: "I made nothing.") as server:
        done = subprocess.run(
            [sys.executable, str(script), "evaluate", "--openai.base_url", f"{server.url}/v1",
             "--env.use_wandb", "false"],
            cwd=work, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((work / "evals" / "terminal-test" / "metrics.json").read_text())
    assert report["metrics"]["eval/mean_reward"] == 0.0
    assert report["metrics"]["eval/scored"] == len(
        lines(work / "evals" / "terminal-test" / "samples.jsonl")
    )


@pytest.mark.parametrize(
    "script",
    [
        "hermes_swe_env/hermes_swe_env.py",
        "benchmarks/terminalbench_2/terminalbench2_env.py",
        "benchmarks/tblite/tblite_env.py",
        "benchmarks/yc_bench/yc_bench_env.py",
    ],
)
def test_shipped_benchmark_without_its_data_says_what_to_do(work: Path, script: str) -> None:
    path = ROOT / "environments" / script
    config = path.with_name("default.yaml")
    given = ["--config", str(config)] if config.exists() else []
    extra = ["--env.presets", '["no_such_preset"]', "--env.seeds", "[1]"] if "yc" in script else []
    done = subprocess.run(
        [sys.executable, str(path), "evaluate", *given, *extra, "--openai.health_check", "false"],
        cwd=work, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2, "the problem and the next step"


def test_modules_are_the_same_in_the_clone_and_elsewhere(work: Path) -> None:
    code = (
        "import environments.hermes_base_env as a, environments.agent_loop as b\n"
        "import environments.tool_context as c, environments.patches as d\n"
        "from environments.tool_call_parsers import get_parser, list_parsers\n"
        "from environments.benchmarks.yc_bench.yc_bench_env import YCBenchEvalEnv\n"
        "print(a.HermesAgentBaseEnv, b.HermesAgentLoop, b.ToolError, c.ToolContext,"
        " d.apply_patches, list_parsers(), YCBenchEvalEnv)"
    )
    script = work / "names.py"
    script.write_text(code)
    outputs = []
    for folder, prefix in ((work, ["-m", "hermes", "run", "names.py"]), (ROOT, ["-c", code])):
        done = subprocess.run(
            [sys.executable, *prefix],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.partition(" at 0x")[0])
    assert outputs[0] == outputs[1]


def test_each_documented_parser_file_has_its_parser() -> None:
    code = (
        "import importlib, pathlib\n"
        "for path in sorted(pathlib.Path('environments/tool_call_parsers').glob('*_parser.py')):\n"
        "    module = importlib.import_module(f'environments.tool_call_parsers.{path.stem}')\n"
        "    print(path.stem, module.parser.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    names = "deepseek_v3 deepseek_v3_1 glm45 glm47 hermes kimi_k2 longcat mistral qwen qwen3_coder"
    expected = {f"{name}_parser": name for name in names.split()}
    assert found == {**expected, "llama_parser": "llama3_json"}, done.stderr
