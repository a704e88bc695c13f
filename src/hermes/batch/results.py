"""Results of an evaluation: pass rates with intervals, cost and time, and the change between runs.

A rollout passes if its reward reaches a limit. A rollout that failed has no result: it is counted
as a failure and is in no rate and no mean.

Intervals are 95 % Wilson score intervals. Rollouts of the same task are not independent, so the
number of rollouts is replaced by the effective number: the number of independent rollouts that
would have the same standard error as the means of the tasks. The interval of a difference between
two runs is Newcombe's square-and-add interval for paired rates, with the correlation between the
rates of the same tasks.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.batch.ledger import LEDGER, read_run
from hermes.core.errors import UsageError
from hermes.core.model import Usage
from hermes.envs import Trace

Z95 = 1.959963984540054  #: The 97.5 % quantile of the normal distribution.
PASS_REWARD = 1.0
ROUNDING = 1e-9  #: A sum of weighted rewards may be a little smaller than it should be.
TRACES, FAILED_TRACES = "traces.jsonl", "failed_traces.jsonl"


class Rate(msgspec.Struct, frozen=True):
    """A rate from 0 to 1 with its 95 % interval."""

    value: float
    low: float
    high: float
    effective: float  #: The effective number of rollouts.


class RateChange(msgspec.Struct, frozen=True):
    """The difference of two rates with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0


def wilson(rate: float, count: float) -> Rate:
    """Return a rate with the Wilson score interval for `count` independent rollouts."""
    z2 = Z95 * Z95
    centre = (rate + z2 / (2 * count)) / (1 + z2 / count)
    spread = math.sqrt(rate * (1 - rate) / count + z2 / (4 * count * count))
    half = Z95 / (1 + z2 / count) * spread
    # The bounds of 0 and 1 are exact; rounding must not move them.
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    high = 1.0 if rate == 1 else min(1.0, centre + half)
    return Rate(rate, low, high, count)


def pass_rate(tasks: Sequence[tuple[int, int]]) -> Rate | None:
    """Return the mean pass rate of tasks, given as passed and scored rollouts. Each task counts the
    same. None if no rollout was scored."""
    tasks = [task for task in tasks if task[1]]
    if not tasks:
        return None
    rates = [passed / scored for passed, scored in tasks]
    rollouts = sum(scored for _, scored in tasks)
    mean = math.fsum(rates) / len(rates)
    return wilson(mean, _effective_number(rates, mean, rollouts))


def _effective_number(rates: Sequence[float], mean: float, rollouts: int) -> float:
    """Return how many independent rollouts have the standard error of the means of the tasks; at
    least the number of tasks, at most that of all rollouts."""
    count = len(rates)
    if count == 1:
        return float(rollouts)
    binomial = mean * (1 - mean)
    if binomial <= 0:
        return float(count)  # all passed or none: how alike repeats are cannot be known
    squared_error = math.fsum((rate - mean) ** 2 for rate in rates) / (count * (count - 1))
    if squared_error <= 0:
        return float(rollouts)
    return min(max(binomial / squared_error, float(count)), float(rollouts))


def change(before: Rate, after: Rate, correlation: float = 0.0) -> RateChange:
    """Return the difference of two rates. For paired rates give their correlation."""

    def half(left: float, right: float) -> float:
        return math.sqrt(max(0.0, left**2 - 2 * correlation * left * right + right**2))

    value = after.value - before.value
    low = value - half(after.value - after.low, before.high - before.value)
    high = value + half(after.high - after.value, before.value - before.low)
    return RateChange(value, max(-1.0, low), min(1.0, high))


def correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Return Pearson's correlation; 0 if one side does not vary."""
    if len(left) < 2:
        return 0.0
    centre_left, centre_right = math.fsum(left) / len(left), math.fsum(right) / len(right)
    pairs = [(a - centre_left, b - centre_right) for a, b in zip(left, right, strict=True)]
    scale = math.fsum(a * a for a, _ in pairs) * math.fsum(b * b for _, b in pairs)
    return math.fsum(a * b for a, b in pairs) / math.sqrt(scale) if scale > 0 else 0.0


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# One run.


class TaskResult(msgspec.Struct, frozen=True):
    """The rollouts of one task."""

    key: str
    hash: str
    scored: int
    passed: int
    failures: int
    rate: Rate | None  #: None if no rollout was scored.
    reward: float | None  #: The mean, as all that follow.
    cost_usd: float | None  #: None if the price is not known.
    seconds: float | None
    calls: float | None  #: Of the model.


class RunSummary(msgspec.Struct, frozen=True):
    """The figures of a run."""

    model: str
    tasks: int
    scored: int
    passed: int
    failures: int
    boundaries: dict[str, int]  #: Failures by boundary.
    rate: Rate | None
    solved_once: int  #: Tasks that passed at least once,
    solved_always: int  #: and each time.
    reward: float | None
    cost_usd: float | None  #: Also of failures and repeated attempts; None if no price is known.
    unpriced: int  #: Rollouts whose cost is not known.
    usage: Usage
    seconds: float  #: Time during which at least one rollout ran.


class RunResults:
    """The traces of a run. `failed` are those of rollouts that were not repeated with success."""

    def __init__(
        self, name: str, traces: Iterable[Trace], failed: Iterable[Trace] = (), *,
        pass_reward: float = PASS_REWARD, spent_usd: float = 0.0,
    ) -> None:  # fmt: skip
        """`spent_usd` is what the run cost with attempts that were repeated, if it is known."""
        self.name, self.pass_reward, self._spent_usd = name, pass_reward, spent_usd
        done: dict[str, Trace] = {}
        lost: dict[str, Trace] = {}
        for trace in (*traces, *failed):
            # A file of `write_traces` has both kinds. A later attempt replaces an earlier one.
            (done if trace.failure is None else lost)[trace.id] = trace
        self.traces = sorted(done.values(), key=lambda trace: trace.started_at)
        self.failed = sorted(
            (trace for key, trace in lost.items() if key not in done),
            key=lambda trace: trace.started_at,
        )

    @classmethod
    def read(cls, path: Path, *, pass_reward: float = PASS_REWARD) -> "RunResults":
        """Read a run's folder or a file of traces. Raises `UsageError` if there is no trace."""
        file = path / TRACES if path.is_dir() else path
        failed = file.with_name(FAILED_TRACES) if path.is_dir() else None
        if not file.is_file() and not (failed and failed.is_file()):
            raise UsageError(
                f"{path} has no traces",
                hint="name the folder of a run of `hermes eval run`, or a file of traces",
            )
        results = cls(
            path.resolve().name if path.is_dir() else path.name,
            _read_traces(file) if file.is_file() else (),
            _read_traces(failed) if failed and failed.is_file() else (),
            pass_reward=pass_reward,
            spent_usd=read_run(path).cost_usd if (path / LEDGER).is_file() else 0.0,
        )
        if not results.traces and not results.failed:
            raise UsageError(f"{path} has no traces yet", hint="wait for the first rollout to end")
        return results

    def passes(self, trace: Trace) -> bool:
        """Return whether the reward of a trace reaches the limit."""
        return trace.reward is not None and trace.reward >= self.pass_reward - ROUNDING

    def all_traces(self) -> list[Trace]:
        return [*self.traces, *self.failed]

    def tasks(self) -> list[TaskResult]:
        """Return the results by task, in the order in which the tasks began."""
        keys = {trace.task_key for trace in self.traces} | {t.task_key for t in self.failed}
        by_key: dict[str, tuple[list[Trace], list[Trace]]] = {key: ([], []) for key in keys}
        for trace in self.traces:
            by_key[trace.task_key][0].append(trace)
        for trace in self.failed:
            by_key[trace.task_key][1].append(trace)
        results = [self._task(key, *found) for key, found in by_key.items()]
        return sorted(results, key=lambda task: task.key)

    def _task(self, key: str, scored: list[Trace], failed: list[Trace]) -> TaskResult:
        rewards = [trace.reward for trace in scored if trace.reward is not None]
        passed = sum(map(self.passes, scored))
        costs = [trace.cost_usd for trace in scored]
        known = [cost for cost in costs if cost is not None]
        return TaskResult(
            key,
            (scored or failed)[-1].task_hash,
            len(rewards),  # a task without rewards has no pass rate
            passed,
            len(failed),
            wilson(passed / len(rewards), len(rewards)) if rewards else None,
            _mean(rewards),
            _mean(known) if len(known) == len(costs) else None,
            _mean([trace.seconds for trace in scored]),
            _mean([float(model_calls(trace)) for trace in scored]),
        )

    def summary(self) -> RunSummary:
        tasks, everything = self.tasks(), self.all_traces()
        costs = [trace.cost_usd for trace in everything]
        known = [cost for cost in costs if cost is not None]
        boundaries: dict[str, int] = {}
        for trace in self.failed:
            assert trace.failure is not None
            name = trace.failure.boundary
            boundaries[name] = boundaries.get(name, 0) + 1
        return RunSummary(
            model=", ".join(dict.fromkeys(trace.model for trace in everything if trace.model)),
            tasks=len(tasks),
            scored=sum(task.scored for task in tasks),
            passed=sum(map(self.passes, self.traces)),
            failures=len(self.failed),
            boundaries=boundaries,
            rate=pass_rate([(task.passed, task.scored) for task in tasks]),
            solved_once=sum(task.passed > 0 for task in tasks),
            solved_always=sum(0 < task.passed == task.scored for task in tasks),
            reward=_mean([task.reward for task in tasks if task.reward is not None]),
            cost_usd=max(math.fsum(known), self._spent_usd) if known else None,
            unpriced=len(costs) - len(known),
            usage=sum((t.usage + t.lost_usage for t in everything), Usage()),
            seconds=covered_seconds((t.started_at, t.started_at + t.seconds) for t in everything),
        )


def _read_traces(file: Path) -> Iterator[Trace]:
    """Yield the traces of a file. The run may still be writing the last line, which is then left
    out. Raises `UsageError` for any other line that is not a trace."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    return
                raise UsageError(f"{file}:{number} is not a trace: {error}") from error


_decoder = msgspec.json.Decoder(Trace)


def model_calls(trace: Trace) -> int:
    return sum(node.sampled for node in trace.nodes)


def covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of time spans: pauses of a resumed run do not count."""
    total, end = 0.0, -math.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


# Two runs.


class TaskChange(msgspec.Struct, frozen=True):
    """A task in two runs; one side is None if the task is in one run only."""

    key: str
    before: TaskResult | None
    after: TaskResult | None
    change: RateChange | None
    """Of the pass rate; None if it is not comparable: one side has no result, or the content of the
    task is another."""
    is_edited: bool = False  #: The content of the task differs.


class Comparison(msgspec.Struct, frozen=True):
    """The change from one run to another. Figures of both sides are over the tasks they share."""

    before_name: str
    after_name: str
    before: RunSummary
    after: RunSummary
    paired: int  #: Tasks that are in both runs with the same content, and scored in both.
    before_rate: Rate | None
    after_rate: Rate | None
    change: RateChange | None  #: None if no task is paired.
    tasks: list[TaskChange]  #: The largest gain first, and then those that are not comparable.

    @property
    def improved(self) -> list[TaskChange]:
        return [task for task in self.tasks if task.change and task.change.value > 0]

    @property
    def worse(self) -> list[TaskChange]:
        return [task for task in self.tasks[::-1] if task.change and task.change.value < 0]

    @property
    def new(self) -> list[TaskChange]:
        return [task for task in self.tasks if task.before is None]

    @property
    def missing(self) -> list[TaskChange]:
        return [task for task in self.tasks if task.after is None]


def compare(before: RunResults, after: RunResults) -> Comparison:
    """Compare two runs task by task."""
    old = {task.key: task for task in before.tasks()}
    new = {task.key: task for task in after.tasks()}
    changes = [_task_change(key, old.get(key), new.get(key)) for key in sorted({*old, *new})]
    changes.sort(key=lambda task: -task.change.value if task.change else math.inf)
    paired = [(old[task.key], new[task.key]) for task in changes if task.change is not None]
    sides = [[pair[0] for pair in paired], [pair[1] for pair in paired]]
    before_rate, after_rate = (
        pass_rate([(task.passed, task.scored) for task in side]) for side in sides
    )
    difference = None
    if before_rate is not None and after_rate is not None:
        values = [[task.passed / task.scored for task in side] for side in sides]
        difference = change(before_rate, after_rate, correlation(*values))
    return Comparison(
        before.name, after.name, before.summary(), after.summary(), len(paired),
        before_rate, after_rate, difference, changes,
    )  # fmt: skip


def _task_change(key: str, old: TaskResult | None, new: TaskResult | None) -> TaskChange:
    edited = old is not None and new is not None and old.hash != new.hash
    difference = None
    if not edited and old and new and old.rate and new.rate:
        difference = change(old.rate, new.rate)
    return TaskChange(key, old, new, difference, edited)


# Exports for training.


def sharegpt_entries(results: RunResults, min_reward: float | None) -> Iterable[dict[str, Any]]:
    """Yield the conversations of scored traces, one entry a branch."""
    for trace in _with_reward(results, min_reward):
        for turns in trace.to_sharegpt():
            yield {
                "conversations": turns,
                "timestamp": trace.started_at,
                "model": trace.model,
                "completed": True,
                "metadata": {
                    "task": trace.task_key,
                    "reward": trace.reward,
                    "trace": trace.id,
                    "exit_reason": trace.exit_reason,
                },
            }


def sample_entries(results: RunResults, min_reward: float | None) -> Iterable[dict[str, Any]]:
    """Yield the branches of scored traces as tokens, mask, log probabilities and reward."""
    for trace in _with_reward(results, min_reward):
        for sample in trace.branches():
            yield {
                "task": trace.task_key,
                "trace": trace.id,
                "reward": trace.reward,
                "token_ids": sample.token_ids,
                "mask": sample.mask,
                "logprobs": sample.logprobs,
                "token_exact": sample.token_exact,
            }


def atif_entries(
    results: RunResults, min_reward: float | None
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the scored traces as ATIF trajectories, each with the key of its task."""
    for trace in _with_reward(results, min_reward):
        yield trace.task_key, trace.to_atif()


def _with_reward(results: RunResults, least: float | None) -> Iterable[Trace]:
    for trace in results.traces:
        if least is None or (trace.reward is not None and trace.reward >= least - ROUNDING):
            yield trace
