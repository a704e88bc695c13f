"""The shipped environments by their documented names. Their tasks are in `hermes.envs`."""

from collections.abc import Sequence
from dataclasses import field
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, ClassVar

from hermes.compat.atropos_names import APIServerConfig, Item
from hermes.compat.environments import Dict, HermesAgentBaseEnv, HermesAgentEnvConfig
from hermes.core.errors import UsageError
from hermes.envs.benchmarks import (
    BENCHMARKS,
    swe_tasks,
    tblite_tasks,
    terminal_bench_2_tasks,
    terminal_test_tasks,
    yc_bench_tasks,
)
from hermes.envs.harbor import HarborTask
from hermes.envs.task import Task
from hermes.envs.taskset import select_tasks


class TaskSetEnvConfig(HermesAgentEnvConfig):
    task_filter: Annotated[list[str], "names of the tasks, also with * and ?; none: all"] = field(
        default_factory=list
    )


class TaskSetEnv(HermesAgentBaseEnv):
    """An environment whose items are tasks of `hermes.envs`, in turn."""

    env_config_cls: ClassVar[type[HermesAgentEnvConfig]] = TaskSetEnvConfig
    config: TaskSetEnvConfig
    benchmark: ClassVar[str] = ""  #: Its name in `BENCHMARKS`.
    eval_defaults: ClassVar[Dict] = {}

    def load_tasks(self) -> Sequence[Task]:
        raise NotImplementedError(f"{type(self).__name__} does not define load_tasks")

    @classmethod
    def config_init(cls) -> tuple[HermesAgentEnvConfig, list[APIServerConfig]]:
        known = BENCHMARKS[cls.benchmark]
        values: Dict = {
            "enabled_toolsets": list(known.toolsets),
            "terminal_backend": known.backend,
            "max_agent_turns": known.max_turns,
            **({"dataset_name": known.dataset} if known.dataset else {}),
            **({"max_eval_workers": known.concurrency} if known.concurrency else {}),
            **cls.eval_defaults,
        }
        return cls.env_config_cls(**values), [APIServerConfig()]

    async def setup(self) -> None:
        self.eval_items = select_tasks(self.load_tasks(), self.config.task_filter)
        self._turns = cycle(self.eval_items)

    async def get_next_item(self) -> Item:
        return next(self._turns)


class TerminalTestEnv(TaskSetEnv):
    """Inline tasks: make a file with a given content. Nothing is needed but a model."""

    name = "terminal-test"
    benchmark = "terminal-test"

    def load_tasks(self) -> Sequence[Task]:
        return terminal_test_tasks()


class HermesSweEnv(TaskSetEnv):
    """Programming tasks with tests. `dataset_name` is a JSONL or parquet file in the style of
    HumanEvalPack."""

    name = "hermes-swe"
    benchmark = "swe"

    def load_tasks(self) -> Sequence[Task]:
        return swe_tasks(self.config.dataset_name or "")


class EvalOnlyEnv(TaskSetEnv):
    """An environment that is not for training: it only evaluates."""

    eval_defaults: ClassVar[Dict] = {"steps_per_eval": 1, "total_steps": 1, "group_size": 1}

    async def collect_trajectories(self, item: Item) -> tuple[None, list[Item]]:  # noqa: ARG002 - documented
        return None, []

    async def score(self, rollout_group_data: Any) -> None:
        """Return None: there is no training data."""

    async def process_manager(self) -> None:
        raise UsageError(f"{self.title} is not for training", hint="use the mode evaluate")

    async def env_manager(self) -> None:
        await self.process_manager()


class TerminalBench2EvalEnv(EvalOnlyEnv):
    """Terminal-Bench 2: 89 tasks, each with its container image and its own tests.

    `dataset_name` is the folder of the tasks.
    """

    name = "terminal-bench-2"
    benchmark = "terminal-bench-2"
    eval_defaults: ClassVar[Dict] = {**EvalOnlyEnv.eval_defaults, "terminal_backend": "modal"}

    def load_tasks(self) -> Sequence[HarborTask]:
        return terminal_bench_2_tasks(self.config.dataset_name or "")

    def eval_metrics(self, samples: Sequence[Dict]) -> Dict:
        """Add the mean reward of each difficulty."""
        metrics = super().eval_metrics(samples)
        levels = {each.key: each.difficulty for each in self.eval_items}
        for level in sorted(set(levels.values())):
            inner = [each for each in samples if levels.get(str(each.get("task"))) == level]
            mean = super().eval_metrics(inner)["eval/mean_reward"]
            metrics[f"eval/mean_reward/{level}"] = mean
        return metrics


class TBLiteEvalEnv(TerminalBench2EvalEnv):
    """OpenThoughts-TBLite: 100 tasks that predict the result of Terminal-Bench 2 in less time."""

    name = "tblite"
    benchmark = "tblite"

    def load_tasks(self) -> Sequence[HarborTask]:
        return tblite_tasks(self.config.dataset_name or "")


class YCBenchEnvConfig(TaskSetEnvConfig):
    presets: Annotated[list[str], "presets of the simulation"] = field(
        default_factory=lambda: ["fast_test", "medium", "hard"]
    )
    seeds: Annotated[list[int], "seeds for each preset"] = field(default_factory=lambda: [1, 2, 3])


class YCBenchEvalEnv(EvalOnlyEnv):
    """YC-Bench: the agent runs a start-up in a simulation. One run after another, local only."""

    name = "yc-bench"
    benchmark = "yc-bench"
    env_config_cls: ClassVar[type[HermesAgentEnvConfig]] = YCBenchEnvConfig
    config: YCBenchEnvConfig

    async def setup(self) -> None:
        if self.config.terminal_backend != "local":
            raise UsageError(
                "YC-Bench runs on this machine only", hint="--env.terminal_backend local"
            )
        await super().setup()

    def load_tasks(self) -> Sequence[Task]:
        return yc_bench_tasks(self.config.presets, self.config.seeds)

    def eval_metrics(self, samples: Sequence[Dict]) -> Dict:
        """Add the mean reward of each preset."""
        metrics = super().eval_metrics(samples)
        for preset in self.config.presets:
            name = Path(preset).stem
            inner = [each for each in samples if str(each.get("task")).startswith(f"{name}-")]
            metrics[f"eval/mean_reward/{name}"] = super().eval_metrics(inner)["eval/mean_reward"]
        return metrics
