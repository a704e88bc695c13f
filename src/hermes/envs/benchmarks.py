"""Benchmarks as sets of tasks.

Terminal-Bench 2 and TBLite are folders of Harbor tasks, see `hermes.envs.harbor`. The other sets
are defined here: TerminalTest, SWE (datasets like HumanEvalPack) and YC-Bench.
"""

import json
import math
import re
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.envs.harbor import HarborTask, load_tasks, read_table
from hermes.envs.task import RolloutContext, Task, metric, reward
from hermes.envs.taskset import select_tasks
from hermes.envs.trace import TaskError, Trace


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """How a benchmark is run, and where its data is."""

    dataset: str = ""  #: On the Hugging Face hub.
    toolsets: tuple[str, ...] = ("terminal", "file")
    backend: str = "docker"
    concurrency: int = 0  #: Rollouts at the same time; 0 leaves it to the caller.
    max_turns: int = 60

    def download(self, folder: str | Path) -> str:
        """Return the command that downloads the dataset."""
        return f"hf download {self.dataset} --repo-type dataset --local-dir {folder}"


BENCHMARKS = {
    "terminal-bench-2": Benchmark(dataset="NousResearch/terminal-bench-2"),
    "tblite": Benchmark(dataset="NousResearch/openthoughts-tblite"),
    "terminal-test": Benchmark(backend="local", max_turns=10),
    "swe": Benchmark(dataset="bigcode/humanevalpack", toolsets=("terminal", "file", "web")),
    "yc-bench": Benchmark(toolsets=("terminal",), backend="local", concurrency=1, max_turns=500),
}

# Terminal-Bench 2 and TBLite


def terminal_bench_2_tasks(
    folder: str | Path, *, task_filter: Sequence[str] = ()
) -> list[HarborTask]:
    """Return the tasks of Terminal-Bench 2 in a folder that the user downloaded."""
    return _downloaded("terminal-bench-2", folder, task_filter)


def tblite_tasks(folder: str | Path, *, task_filter: Sequence[str] = ()) -> list[HarborTask]:
    """Return the tasks of TBLite in a folder that the user downloaded."""
    return _downloaded("tblite", folder, task_filter)


def _downloaded(name: str, folder: str | Path, task_filter: Sequence[str]) -> list[HarborTask]:
    if not Path(folder).expanduser().is_dir():
        raise UsageError(
            f"{name}: there is no folder {folder}", hint=BENCHMARKS[name].download(folder)
        )
    return load_tasks(folder, task_filter=task_filter)


class DifficultyResult(msgspec.Struct, frozen=True):
    """Results of the tasks of one difficulty. Rollouts that failed are not part of the mean."""

    tasks: int
    judged: int  #: Rollouts with a reward.
    failed: int  #: Rollouts without one.
    mean_reward: float | None


def difficulty_results(
    tasks: Iterable[HarborTask], traces: Iterable[Trace]
) -> dict[str, DifficultyResult]:
    """Return the results by the difficulty of the tasks. Traces of other tasks are ignored."""
    difficulty = {task.key: task.difficulty for task in tasks}
    rewards: dict[str, list[float | None]] = {name: [] for name in difficulty.values()}
    for trace in traces:
        if trace.task_key in difficulty:
            rewards[difficulty[trace.task_key]].append(trace.reward)
    results = {}
    for name, given in rewards.items():
        judged = [each for each in given if each is not None]
        mean = sum(judged) / len(judged) if judged else None
        count = list(difficulty.values()).count(name)
        results[name] = DifficultyResult(count, len(judged), len(given) - len(judged), mean)
    return results


# Tasks that work in one folder, on any backend

FOLDER = "HERMES_TASK_FOLDER"


async def _begin(ctx: RolloutContext, files: Mapping[str, str]) -> None:
    """Write the files that the agent starts with, and remember the folder."""
    for path, content in files.items():
        await ctx.write_file(path, content)
    await ctx.terminal(f'export {FOLDER}="$PWD"')


async def _read(ctx: RolloutContext, path: str) -> str | None:
    """Return a file of the folder in which the agent began, or None if there is none."""
    await ctx.terminal(f'cd "${FOLDER}"')  # the agent may have changed the folder
    try:
        return str((await ctx.read_file(path))["content"])
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


class TerminalTestTask(Task, frozen=True):
    """Make a file. The verifier compares it with the expected text, without trailing space; a file
    whose name ends in .json is compared as JSON."""

    path: str
    expected: str
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Files that the agent starts with."""

    async def setup(self, ctx: RolloutContext) -> None:
        await _begin(ctx, self.files)

    @reward
    async def is_correct(self, _trace: Trace, ctx: RolloutContext) -> float:
        text = await _read(ctx, self.path)
        return float(text is not None and self._value(text) == self._value(self.expected))

    def _value(self, text: str) -> Any:
        if self.path.endswith(".json"):
            try:
                return json.loads(text)
            except ValueError:
                return None
        return [line.rstrip() for line in text.rstrip().splitlines()]

    async def solve(self, ctx: RolloutContext) -> None:
        """Write the expected file, as the oracle does."""
        await ctx.write_file(self.path, self.expected)


def terminal_test_tasks() -> list[TerminalTestTask]:
    """Return small tasks that need no data and no container."""
    table = Path(__file__).with_name("terminal_test.json").read_bytes()
    return msgspec.json.decode(table, type=list[TerminalTestTask])


# SWE: one function to correct or to write, with tests

SOLUTION = "solution.py"
SWE_PROMPTS: dict[str, str] = {
    "fix": "The function `{name}` in {file} has a bug. Find it and correct it.",
    "implement": "Write the function `{name}` in {file}. Its docstring says what it does.",
}

# The tests see all names of the solution. Its last line proves that they ran to the end: a solution
# that ends the process would otherwise pass.
SWE_RUNNER = """
import sys
sys.path.insert(0, {folder!r})
import solution
exec(compile({test!r}, "tests", "exec"), vars(solution))
print({proof!r})
"""


class SweRow(msgspec.Struct, frozen=True):
    """A row of a dataset in the style of HumanEvalPack."""

    task_id: str
    prompt: str  #: Imports, declaration and docstring of the function.
    entry_point: str
    canonical_solution: str  #: The body of the function.
    test: str
    buggy_solution: str = ""
    test_setup: str = ""
    imports: str = msgspec.field(default="", name="import")


class SweTask(Task, frozen=True):
    """A Python function with tests. The agent does not see the tests."""

    row: SweRow
    mode: str = "fix"
    test_timeout: float = 60.0  #: Seconds.

    async def setup(self, ctx: RolloutContext) -> None:
        body = "    raise NotImplementedError\n"
        await _begin(ctx, {SOLUTION: self._file(self.row.buggy_solution or body)})
        if (await ctx.terminal("command -v python3"))["exit_code"]:
            raise TaskError(
                f"the tests need python3, which the backend {ctx.backend} does not have"
            )

    def _file(self, body: str) -> str:
        imports = f"{self.row.imports.strip()}\n\n" if self.row.imports.strip() else ""
        return f"{imports}{self.row.prompt}{body}"

    @reward
    async def passes_tests(self, _trace: Trace, ctx: RolloutContext) -> float:
        """Run the tests on a copy of the solution in a new folder, where the agent has no files."""
        solution = await _read(ctx, SOLUTION)
        if solution is None:
            return 0.0
        made = await ctx.terminal("mktemp -d")
        folder = made["output"].strip()
        if made["exit_code"] or not folder.startswith("/"):
            raise TaskError(f"no folder for the tests can be made: {folder}")
        proof = secrets.token_hex(16)
        runner = SWE_RUNNER.format(folder=folder, test=self._test(), proof=proof)
        await ctx.write_file(f"{folder}/{SOLUTION}", solution)
        await ctx.write_file(f"{folder}/run.py", runner)
        command = f"cd {shlex.quote(folder)} && python3 -I -B run.py"
        ran = await ctx.terminal(f"({command})", timeout=self.test_timeout)
        await ctx.terminal(f"rm -rf {shlex.quote(folder)}")
        if ran["exit_code"] in (126, 127):
            raise TaskError(f"the tests could not run: {ran['output'].strip()[-500:]}")
        return float(ran["exit_code"] == 0 and proof in ran["output"])

    def _test(self) -> str:
        test, name = f"{self.row.test_setup}\n{self.row.test}", self.row.entry_point
        # HumanEvalPack calls `check` itself; HumanEval leaves it to the harness.
        if "def check(" in test and not re.search(r"^check\(", test, re.MULTILINE):
            test += f"\ncheck({name})\n"
        return test

    async def solve(self, ctx: RolloutContext) -> None:
        """Write the solution of the dataset, as the oracle does."""
        await ctx.write_file(SOLUTION, self._file(self.row.canonical_solution))


def swe_tasks(
    file: str | Path, *, mode: str = "fix", task_filter: Sequence[str] = ()
) -> list[SweTask]:
    """Return the tasks of a JSONL or parquet file in the style of HumanEvalPack, Python only.

    With the mode `fix` the agent starts with the buggy solution, with `implement` without one.
    Raises `UsageError` with the line that is wrong.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}",
            hint="python -c 'from datasets import load_dataset; load_dataset("
            f'"bigcode/humanevalpack", "python")["test"].to_json("{path}")\'',
        )
    if mode not in SWE_PROMPTS:
        raise UsageError(f"mode {mode}: expected one of {', '.join(SWE_PROMPTS)}")
    tasks = [_swe_task(row, mode, f"{path}:{number}") for number, row in _rows(path)]
    chosen = {task.key for task in select_tasks(tasks, task_filter)}
    return [task for task in tasks if task.key in chosen]


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    if path.suffix == ".parquet":
        yield from enumerate(read_table(path), start=1)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield number, msgspec.json.decode(line)
                except msgspec.DecodeError as error:
                    raise UsageError(f"{path}:{number} is not JSON: {error}") from error


def _swe_task(data: Any, mode: str, where: str) -> SweTask:
    try:
        row = msgspec.convert(data, SweRow)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from error
    language = row.task_id.partition("/")[0]
    if language.lower() not in ("python", "humaneval", row.task_id.lower()):
        raise UsageError(
            f"{where}: {row.task_id} is not a Python task",
            hint="use the python part of the dataset",
        )
    if mode == "fix" and not row.buggy_solution:
        raise UsageError(f"{where}: {row.task_id} has no buggy_solution", hint="use mode=implement")
    if mode == "implement":
        row = msgspec.structs.replace(row, buggy_solution="")
    prompt = SWE_PROMPTS[mode].format(name=row.entry_point, file=SOLUTION)
    rules = f"Change only {SOLUTION} in the current folder. Hidden tests will check the function."
    return SweTask(name=row.task_id, prompt=f"{prompt} {rules}", row=row, mode=mode)


# YC-Bench: a simulated start-up, which the agent runs through the program `yc-bench`

YC_INSTALL = "uv tool install git+https://github.com/collinear-ai/yc-bench"
YC_PRESETS = {
    "fast_test": 1, "tutorial": 1, "easy": 1, "medium": 1, "hard": 1, "nightmare": 1, "default": 3,
}  # fmt: skip
"""Presets and the years that their simulation takes."""
YC_REFERENCE_USD = 250_000.0
YC_TOP = 100.0  #: This multiple of the reference gives the full score for funds.
YC_MAX_EVENTS = 5000  #: Events that are simulated after the agent has ended.
YC_PROMPT = """\
You are the CEO of an AI start-up in a simulation. Run it until the end of the simulated time and \
finish with as much money as you can. If the funds fall below zero, the company is bankrupt.

You act only through the program `yc-bench` in the terminal. All its answers are JSON.

Look:
  yc-bench company status
  yc-bench employee list
  yc-bench market browse [--domain DOMAIN] [--limit N]
  yc-bench task list [--status STATUS]
  yc-bench task inspect --task-id ID
  yc-bench finance ledger
  yc-bench report monthly
  yc-bench scratchpad read
Act:
  yc-bench task accept --task-id ID
  yc-bench task assign --task-id ID --employee-id ID
  yc-bench task dispatch --task-id ID
  yc-bench task cancel --task-id ID --reason TEXT
  yc-bench scratchpad write|append|clear
  yc-bench sim resume        (time passes until the next event)

Accept tasks that the company can finish in time, assign employees to them, dispatch them, and \
then call `yc-bench sim resume`. Salaries are paid each month. Tasks that end in time bring money \
and prestige in their domains (research, inference, data_environment, training); late and \
cancelled tasks cost prestige. Many tasks need a minimum of prestige. An employee on several tasks \
works on each of them more slowly. Do not start the simulation again, and do not read or change \
its database in any other way. You are done when `sim resume` reports a `terminal_reason`.
"""


class YCBenchTask(Task, frozen=True):
    """A run of the simulation. The reward is 0.5 × survival + 0.5 × normalised funds."""

    preset: str
    seed: int

    def check(self, backend: str) -> None:
        """Raise `UsageError` if the task cannot run on this backend."""
        if backend != "local":
            raise UsageError(
                f"YC-Bench runs on the backend local only, not on {backend}",
                hint="use --backend local",
            )

    async def setup(self, ctx: RolloutContext) -> None:
        """Start the simulation, with a database in the folder of the rollout."""
        self.check(ctx.backend)
        if (await ctx.terminal("command -v yc-bench"))["exit_code"]:
            raise TaskError(f"the program yc-bench is not installed; install it: {YC_INSTALL}")
        await ctx.terminal(
            'export DATABASE_URL="sqlite:///$PWD/yc_bench.db"'
            f" YC_BENCH_EXPERIMENT={shlex.quote(self.preset)}"
        )
        years = YC_PRESETS.get(self.preset, 1)
        await _yc_bench(
            ctx,
            f"sim init --seed {self.seed} --start-date 01/01/2025 --horizon-years {years}"
            " --company-name BenchCo",
        )

    @reward(weight=0.5)
    async def survival(self, _trace: Trace, ctx: RolloutContext) -> float:
        """1 if the company reached the end of the simulated time without bankruptcy."""
        return float(not (await self._final(ctx)).bankrupt)

    @reward(weight=0.5)
    async def normalised_funds(self, _trace: Trace, ctx: RolloutContext) -> float:
        """The funds at the end on a logarithmic scale: 0 for none, 0.15 for 250,000 dollars and 1
        for 100 times as much or more."""
        funds = max((await self._final(ctx)).funds_usd, 0.0)
        return min(1.0, math.log1p(funds / YC_REFERENCE_USD) / math.log1p(YC_TOP))

    @metric
    async def funds_usd(self, _trace: Trace, ctx: RolloutContext) -> float:
        return (await self._final(ctx)).funds_usd

    async def _final(self, ctx: RolloutContext) -> "CompanyStatus":
        """Return the state at the end. If the agent ended before, time passes without it."""
        for _ in range(YC_MAX_EVENTS):
            status = CompanyStatus.of(await _yc_bench(ctx, "company status"))
            if status.bankrupt or status.ended:
                return status
            await _yc_bench(ctx, "sim resume")
        raise TaskError(f"the simulation did not end in {YC_MAX_EVENTS} events")


class CompanyStatus(msgspec.Struct, frozen=True):
    """The relevant part of `yc-bench company status`."""

    funds_cents: int
    sim_time: datetime
    horizon_end: datetime

    @classmethod
    def of(cls, data: dict[str, Any]) -> "CompanyStatus":
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise TaskError(f"`yc-bench company status` has another format: {error}") from error

    @property
    def bankrupt(self) -> bool:
        return self.funds_cents < 0

    @property
    def ended(self) -> bool:
        # The database may or may not keep the time zone, which is always UTC.
        return self.sim_time.replace(tzinfo=None) >= self.horizon_end.replace(tzinfo=None)

    @property
    def funds_usd(self) -> float:
        return self.funds_cents / 100


async def _yc_bench(ctx: RolloutContext, arguments: str) -> dict[str, Any]:
    """Run the program and return its answer. Raises `TaskError`."""
    ran = await ctx.terminal(f"yc-bench {arguments}")
    try:
        answer = json.loads(ran["output"])
    except ValueError:
        answer = None
    if ran["exit_code"] or not isinstance(answer, dict) or "error" in answer:
        text = ran["output"].strip()[-1000:]
        raise TaskError(f"`yc-bench {arguments}` failed ({ran['exit_code']}): {text}")
    return answer


def yc_bench_tasks(
    presets: Sequence[str] = ("fast_test", "medium", "hard"), seeds: Sequence[int] = (1, 2, 3)
) -> list[YCBenchTask]:
    """Return a run for each preset and seed. A preset is a name or the path of a TOML file. Raises
    `UsageError` for a name that is not known."""
    for preset in presets:
        if preset not in YC_PRESETS and not Path(preset).is_file():
            raise UsageError(
                f"YC-Bench has no preset {preset}", hint=f"use one of {', '.join(YC_PRESETS)}"
            )
    return [
        YCBenchTask(name=f"{Path(preset).stem}-{seed}", prompt=YC_PROMPT, preset=preset, seed=seed)
        for preset in presets
        for seed in seeds
    ]
