"""Configuration, command line and files of documented environments."""

import dataclasses
import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pydantic
import pytest

from hermes.compat.atropos_names import (
    APIServer,
    APIServerConfig,
    BaseEnvConfig,
    EvalHandlingEnum,
    group_of,
    sequence_node,
    server_configs,
)
from hermes.compat.env_base import BaseEnv, EnvCommand, append_lines, read_lines
from hermes.compat.env_benchmarks import (
    TBLiteEvalEnv,
    TerminalBench2EvalEnv,
    TerminalTestEnv,
    YCBenchEnvConfig,
    YCBenchEvalEnv,
)
from hermes.compat.environments import HermesAgentBaseEnv, HermesAgentEnvConfig, result_of
from hermes.core.errors import UsageError
from hermes.core.testing import ModelServer
from hermes.envs import RecordedCall, Trace, TraceRecorder

ROOT = Path(__file__).parents[3]


class OwnConfig(HermesAgentEnvConfig):
    difficulty: str = "easy"
    levels: list[int] = dataclasses.field(default_factory=lambda: [1, 2])
    limit: int = pydantic.Field(default=7, description="the most that is allowed")


class OwnEnv(HermesAgentBaseEnv):
    name = "own"
    env_config_cls = OwnConfig

    @classmethod
    def config_init(cls):
        config = OwnConfig(group_size=8, max_agent_turns=9, difficulty="hard")
        return config, [APIServerConfig(base_url="http://first/v1", model_name="first")]


def parse(*words: str, env: type[BaseEnv] = OwnEnv) -> Any:
    return EnvCommand.parse(env, ["evaluate", *words])


# Configuration


def test_documented_defaults() -> None:
    config = HermesAgentEnvConfig()
    expected = {
        "enabled_toolsets": None, "disabled_toolsets": None, "distribution": None,
        "max_agent_turns": 30, "agent_temperature": 1.0, "system_prompt": None,
        "terminal_backend": "local", "terminal_timeout": 120, "terminal_lifetime": 3600,
        "dataset_name": None, "tool_pool_size": 128, "tool_call_parser": "hermes",
        "extra_body": None, "eval_handling": EvalHandlingEnum.STOP_TRAIN, "group_size": 4,
        "total_steps": 1000, "steps_per_eval": 100, "rollout_server_url": "http://localhost:8000",
        "data_path_to_save_groups": None, "wandb_name": None, "use_wandb": True,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected
    assert "your consent" in HermesAgentEnvConfig.fields()["terminal_backend"].description


def test_fields_of_a_script_may_be_made_in_any_usual_way() -> None:
    config = OwnConfig(limit="9")
    assert (config.limit, config.levels, config.difficulty) == (9, [1, 2], "easy")
    config.levels.append(3)
    assert OwnConfig().levels == [1, 2], "defaults are not shared"
    assert OwnConfig.fields()["limit"].description == "the most that is allowed"
    with pytest.raises(UsageError, match="OwnConfig has no field 'limt'"):
        OwnConfig(limt=1)
    with pytest.raises(UsageError, match=r"group_size: Expected `int`"):
        OwnConfig(group_size="many")
    assert config.model_copy(update={"limit": 1}).model_dump()["limit"] == 1


def test_objects_of_the_library_itself_are_accepted() -> None:
    class Foreign(Enum):
        NONE = "NONE"

    class ForeignServer(pydantic.BaseModel):
        base_url: str = "http://x/v1"
        model_name: str = "m"
        n_kwargs_in_completion: bool = True

    assert BaseEnvConfig(eval_handling=Foreign.NONE).eval_handling is EvalHandlingEnum.NONE
    (config,) = server_configs(ForeignServer())
    assert (config.base_url, config.model_name) == ("http://x/v1", "m")


# The command line


def test_options_override_the_file_which_overrides_config_init(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "env:\n  max_agent_turns: 20\n  difficulty: odd\n  eval_handling: NONE\n"
        "openai:\n  model_name: second\n  health_check: false\n"
    )
    found = parse("--config", str(file), "--env.difficulty", "top", "--openai.api_key=k")
    assert (found.config.group_size, found.config.max_agent_turns) == (8, 20)
    assert found.config.difficulty == "top"
    assert found.config.eval_handling is EvalHandlingEnum.NONE
    (server,) = found.servers
    assert (server.base_url, server.model_name) == ("http://first/v1", "second")
    assert (server.api_key, server.health_check) == ("k", False)


def test_lists_are_json_or_separated_by_commas() -> None:
    for text in ('["terminal", "file"]', "terminal,file", "terminal, file"):
        assert parse("--env.enabled_toolsets", text).config.enabled_toolsets == ["terminal", "file"]
    assert parse("--env.levels", "[3]").config.levels == [3]
    assert parse("--env.levels", "3,4").config.levels == [3, 4]
    assert parse("--env.levels=5").config.levels == [5]
    config = parse("--env.extra_body", '{"top_k": 5}', "--env.use_wandb").config
    assert (config.extra_body, config.use_wandb) == ({"top_k": 5}, True)
    assert parse("--env.system_prompt", "none").config.system_prompt is None
    assert parse("--env.agent_temperature", "-1").config.agent_temperature == -1


def test_several_servers_come_from_a_list(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("openai:\n- base_url: http://a/v1\n- base_url: http://b/v1\n")
    found = parse("--config", str(file), "--openai.model_name", "m", "--slurm", "false")
    assert [each.base_url for each in found.servers] == ["http://a/v1", "http://b/v1"]
    assert {each.model_name for each in found.servers} == {"m"}


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["--env.gruop_size", "3"], "no option --env.gruop_size", "did you mean --env.group_size?"),
        (["--env.group_size", "few"], "--env.group_size: Expected `int`", ""),
        (["--other", "1"], "no option --other", "--help"),
        (["stray"], "unexpected argument 'stray'", "--env.NAME VALUE"),
        (["--config", "/no/such.yaml"], "No such file", ""),
    ],
)
def test_mistake_on_the_command_line_is_named(words: list[str], problem: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(*words)
    assert problem in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("env: [1]", "env: expected names and values"),
        ("envs:\n  a: 1", "expected the sections env and openai"),
        ("env:\n  turns: 1", "no option env.turns"),
        ("env: {", "is not valid YAML"),
    ],
)
def test_mistake_in_the_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        parse("--config", str(tmp_path / "c.yaml"))
    assert problem in str(caught.value)


def test_help_lists_modes_and_options_but_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    class Keyed(OwnEnv):
        @classmethod
        def config_init(cls):
            return OwnConfig(), [APIServerConfig(api_key="sk-secret")]

    with pytest.raises(SystemExit) as ended:
        Keyed.cli(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    for text in ("serve", "process", "evaluate", "--env.limit (default: 7)", "the most that is"):
        assert text in shown
    assert "sk-secret" not in shown


def test_user_error_is_two_lines_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        OwnEnv.cli(["serv"])
    said = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert said[0].endswith("there is no mode 'serv'")
    assert said[1] == "  choose: serve, process, evaluate"


# Servers and groups


def test_key_of_the_user_is_sent_to_its_own_service_only(
    monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-router")
    keys = {
        url: APIServer(APIServerConfig(base_url=url)).api_key
        for url in (None, "https://openrouter.ai/api/v1", "http://localhost:8000/v1")
    }
    assert list(keys.values()) == ["sk-openai", "sk-router", ""]
    assert APIServer(APIServerConfig(base_url="http://x/v1", api_key="own")).api_key == "own"


def rollout(*, exact: bool = True) -> Trace:
    recorder = TraceRecorder()
    call = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    asked: list[dict[str, Any]] = [{"role": "user", "content": "2?"}]
    first = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Hm.",
        "tool_calls": [call],
    }
    tokens: dict[str, Any] = {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5]}
    recorder.add(RecordedCall(messages=asked, reply=first, **(tokens if exact else {})))
    answer = {"role": "tool", "tool_call_id": "c1", "content": '{"error": "no command"}'}
    asked = [*asked, first, answer]
    tokens = {"prompt_ids": [1, 2, 3, 4], "completion_ids": [5], "logprobs": [-0.25]}
    last = {"role": "assistant", "content": "4"}
    recorder.add(RecordedCall(messages=asked, reply=last, **(tokens if exact else {})))
    return Trace("r", "t", "", "m", recorder.nodes, exit_reason="answered")


def test_tokens_that_were_not_sampled_are_masked() -> None:
    node = sequence_node(rollout().branches()[-1])
    assert node.tokens == [1, 2, 3, 4, 5]
    assert node.masked_tokens == [-100, -100, 3, -100, 5]
    assert node.logprobs == [1.0, 1.0, -0.5, 1.0, -0.25]


def test_rollout_without_tokens_has_masked_placeholders() -> None:
    node = sequence_node(rollout(exact=False).branches()[-1])
    assert len(node.tokens) == len(node.logprobs) == 4
    assert (set(node.masked_tokens), set(node.logprobs)) == ({-100}, {1.0})


def test_result_names_turns_reasoning_and_failed_calls() -> None:
    result = result_of(rollout())
    assert (result.turns_used, result.finished_naturally) == (2, True)
    assert result.reasoning_per_turn == ["Hm.", None]
    (error,) = result.tool_errors
    assert (error.turn, error.tool_name, error.error) == (1, "terminal", "no command")
    assert result.managed_state is not None
    assert result.managed_state["nodes"][0].tokens == [1, 2, 3, 4, 5]
    assert result_of(rollout(exact=False)).managed_state is None


def test_group_has_the_fields_that_all_rollouts_have() -> None:
    one = {"tokens": [1], "masks": [1], "scores": 0.5, "advantages": [1.0]}
    two = {"tokens": [2], "masks": [2], "scores": 1.0, "group_overrides": {"a": 1}}
    assert group_of([two, one]) == {
        "tokens": [[2], [1]],
        "masks": [[2], [1]],
        "scores": [1.0, 0.5],
        "group_overrides": {"a": 1},
    }


# Files


def test_torn_last_line_is_removed_and_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "samples.jsonl"
    assert read_lines(path) == []
    append_lines(path, [{"a": 1}, {"b": Path("/x")}])
    with path.open("a") as file:
        file.write('{"c": ')
    assert read_lines(path) == [{"a": 1}, {"b": "/x"}]
    assert path.read_bytes().endswith(b'"/x"}\n')
    path.write_text('{"a": 1}\nbroken\n{"b": 2}\n')
    with pytest.raises(UsageError, match="line 2 is not JSON"):
        read_lines(path)
    assert path.read_text().endswith('{"b": 2}\n'), "nothing is lost"


async def test_log_of_an_evaluation_is_json_and_jsonl(tmp_path: Path) -> None:
    config = OwnConfig(data_dir_to_save_evals=str(tmp_path), use_wandb=False)
    env = OwnEnv(config, [APIServerConfig(model_name="m", api_key="sk-secret")])
    await env.evaluate_log({"eval/x": 0.5}, samples=[{"score": 1}, {"score": 0}], verbose=False)
    report = json.loads((tmp_path / "metrics.json").read_text())
    assert (report["metrics"], report["model_name"]) == ({"eval/x": 0.5}, "m")
    assert read_lines(tmp_path / "samples.jsonl") == [{"score": 1}, {"score": 0}]
    assert "sk-secret" not in (tmp_path / "metrics.json").read_text()
    await env.evaluate_log({"eval/x": 0.6}, verbose=False)
    assert len(read_lines(tmp_path / "samples.jsonl")) == 2, "samples stay"


# Environments of Atropos without our agent


class PlainEnv(BaseEnv):
    """Asks the model once. The first item leads to another one, the second one has no score."""

    name = "plain"
    numbers = iter(range(10))

    async def get_next_item(self):
        return {"number": next(self.numbers)}

    async def collect_trajectory(self, item):
        if item["number"] == 1:
            return None, []
        messages = [{"role": "user", "content": str(item["number"])}]
        reply = await self.server.chat_completion(messages=messages, max_tokens=5)
        text = reply.choices[0].message.content
        more = [{"number": 100}] if item["number"] == 0 else []
        answer = {"role": "assistant", "content": text}
        scored = {"tokens": [1], "masks": [1], "scores": 0.5, "messages": [*messages, answer]}
        return scored, more

    async def postprocess_histories(self, trajectories):
        return trajectories and {**trajectories, "scores": [x * 2 for x in trajectories["scores"]]}


async def test_environment_of_atropos_without_our_agent(tmp_path: Path, hermes_home: Path) -> None:
    with ModelServer(lambda request: f"Got {request.body['messages'][0]['content']}.") as server:
        config = BaseEnvConfig(
            group_size=1, total_steps=3, data_path_to_save_groups=str(tmp_path / "g.jsonl")
        )
        env = PlainEnv(config, APIServerConfig(base_url=f"{server.url}/v1", model_name="m"))
        await env.run_mode("process")
    assert {call.body["max_tokens"] for call in server.calls} == {5}
    written = read_lines(tmp_path / "g.jsonl")
    said = sorted(each["messages"][-1]["content"] for each in written)
    assert said == ["Got 0.", "Got 100.", "Got 2."]
    assert {each["reward"] for each in written} == {1.0}


def test_tokenizer_is_that_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    env = PlainEnv(BaseEnvConfig(tokenizer_name="some/name"), APIServerConfig())
    with pytest.raises(UsageError, match="needs the library transformers"):
        _ = env.tokenizer
    (tmp_path / "transformers.py").write_text(
        "class AutoTokenizer:\n    from_pretrained = staticmethod(lambda name: [name])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert env.tokenizer == ["some/name"]
    monkeypatch.delitem(sys.modules, "transformers")


# The shipped environments


def test_evaluations_only_have_stubs_for_training() -> None:
    config, servers = TerminalBench2EvalEnv.config_init()
    assert (config.steps_per_eval, config.total_steps) == (1, 1)
    assert config.terminal_backend == "modal"
    assert issubclass(TBLiteEvalEnv, TerminalBench2EvalEnv)
    assert TBLiteEvalEnv.config_init()[0].dataset_name == "NousResearch/openthoughts-tblite"
    assert servers == [APIServerConfig()]


async def test_training_modes_of_an_evaluation_are_refused() -> None:
    env = YCBenchEvalEnv(*YCBenchEvalEnv.config_init())
    assert await env.collect_trajectories({}) == (None, [])
    assert await env.score([]) is None
    for manager in (env.process_manager, env.env_manager):
        with pytest.raises(UsageError, match="not for training"):
            await manager()


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        (TerminalBench2EvalEnv, "terminalbench_2"),
        (TBLiteEvalEnv, "tblite"),
        (YCBenchEvalEnv, "yc_bench"),
    ],
)
def test_shipped_configuration_is_valid(env: type[BaseEnv], folder: str) -> None:
    file = ROOT / "environments" / "benchmarks" / folder / "default.yaml"
    found = parse("--config", str(file), "--env.task_filter", "a,b", env=env)
    assert found.config.task_filter == ["a", "b"]
    assert found.servers[0].health_check is False
    if isinstance(found.config, YCBenchEnvConfig):
        given = ("--env.presets", '["fast_test"]', "--env.seeds", "[1]")
        config = parse("--config", str(file), *given, env=env).config
        assert (config.presets, config.seeds) == (["fast_test"], [1])
        assert config.max_eval_workers == 1, "one run after another"


async def test_tasks_are_taken_in_turn_and_can_be_chosen() -> None:
    config, servers = TerminalTestEnv.config_init()
    env = TerminalTestEnv(config, servers)
    await env.setup()
    names = [task.key for task in env.eval_items]
    taken = [(await env.get_next_item()).key for _ in range(len(names) + 1)]
    assert taken == [*names, names[0]]
    chosen = TerminalTestEnv(config.model_copy(update={"task_filter": [names[1]]}), servers)
    await chosen.setup()
    assert [task.key for task in chosen.eval_items] == [names[1]]
