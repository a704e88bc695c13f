"""`hermes eval`: run task sets, and report, compare and export the results."""

import argparse
import re
import shlex
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from hermes import ops
from hermes.app import stored_secrets
from hermes.batch import BatchRun, RunOptions, RunOutcome
from hermes.batch.charts import decimal, money, percent, points, seconds
from hermes.batch.ledger import SPEC, read_run_file
from hermes.batch.report import Report, change_interval, change_state, render_comparison
from hermes.batch.results import (
    PASS_REWARD,
    Comparison,
    RunResults,
    RunSummary,
    atif_entries,
    compare,
    sample_entries,
    sharegpt_entries,
)
from hermes.batch.work import decode_spec
from hermes.cli.context import Cli, Command, ProgressLine, arg, flag, repeated, table
from hermes.cli.output import RunProgressView, amount, positive
from hermes.core.errors import BudgetSpent, Interrupted, UsageError
from hermes.envs import RolloutOptions, ServerKind, list_parsers, load_tasks, select_tasks
from hermes.envs.benchmarks import BENCHMARKS, Benchmark
from hermes.envs.taskset import BUILTIN
from hermes.security import Redactor
from hermes.util.text import many, plain_line

if TYPE_CHECKING:
    from hermes.batch.evaluation import TaskSpec  # these load the agent
    from hermes.batch.models import RunModel

RUNS = Path("evals")  #: The folder of runs that are not named.
REPORT = "report.html"
SHOWN_TASKS = 40  #: Rows of the table after a run.
CONCURRENCY = 8
SOME_FAILED = 1  #: The exit code if rollouts failed, or solutions do not pass.

COMMAND = Command("eval")


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


SOURCE_HELP = f"file.py, module:NAME, a folder of Harbor tasks, or {', '.join(BUILTIN)}"
SELECTION = (
    repeated("--option", type=_option, metavar="NAME=VALUE", help="for the task set; repeatable"),
    arg("--tasks", dest="patterns", default="", metavar="NAMES",
        help="only these tasks, by names or patterns separated by commas"),
    arg("--limit", type=positive, default=0, metavar="N", help="only the first N tasks"),
)  # fmt: skip
EXECUTION = (
    arg("--repeats", type=positive, default=1, metavar="K", help="rollouts of each task (1)"),
    arg("--concurrency", type=positive, metavar="N",
        help=f"rollouts at the same time ({CONCURRENCY})"),
    arg("--processes", type=int, default=0, metavar="N", help="worker processes; 0 uses none (0)"),
    arg("--ray", default="", metavar="ADDRESS", help="address of a Ray cluster, or local"),
    arg("--backend", metavar="NAME", help="where commands run (local)"),
    flag("--retry-failed", help="with --resume: run failed rollouts again"),
    arg("--pass-reward", type=float, metavar="X",
        help=f"the reward with which a rollout passes ({PASS_REWARD:g})"),
)  # fmt: skip
SAMPLING = (
    arg("--temperature", type=float, metavar="X", help="of the model"),
    arg("--top-p", type=float, metavar="X", help="of the model"),
    arg("--max-tokens", type=positive, metavar="N", help="of one reply"),
    arg("--seed", type=int, metavar="N", help="of the model"),
)


# Running task sets.


@COMMAND.action(
    "run",
    "let the agent work on a task set",
    arg("source", nargs="?", metavar="TASKS", help=f"{SOURCE_HELP}; with --resume not needed"),
    *SELECTION,
    arg("-m", "--model", default="", metavar="NAME", help="model to use, as for hermes chat"),
    arg("--provider", default="", metavar="ID", help="provider to use"),
    arg("--base-url", default="", metavar="URL", help="URL of an OpenAI-compatible endpoint"),
    arg("--api-key", default="", metavar="KEY", help="its key; it is not stored"),
    arg("-o", "--output", type=Path, metavar="DIR", help=f"folder of the run ({RUNS}/NAME)"),
    flag("--resume", help="continue the run in the folder"),
    *EXECUTION,
    arg("-t", "--toolsets", default="", metavar="NAMES", help="toolsets (terminal,file)"),
    arg("--max-turns", type=positive, metavar="N", help="model calls of a rollout (30)"),
    arg("--timeout", type=amount, default=3600.0, metavar="S", help="seconds of a rollout (3600)"),
    arg("--budget", type=amount, metavar="USD", help="stop before the run costs more"),
    *SAMPLING,
    arg("--capture", choices=get_args(ServerKind), help="record tokens from this kind of server"),
    arg("--parser", default="", choices=("", *list_parsers()), metavar="NAME",
        help="of tool calls, with --capture (hermes)"),
    json=True,
)  # fmt: skip
async def _run(args: Namespace, cli: Cli) -> int:
    with redirect_stdout(cli.stderr):  # what the task set prints is not part of the results
        spec = await _resumed_spec(args, cli) if args.source is None else await _spec(args, cli)
        folder = args.output or RUNS / _run_name(spec)
        if (folder / SPEC).exists() and not args.resume:
            raise UsageError(
                f"{folder} has a run already",
                hint="--resume continues it; --output names another folder",
            )
        outcome = await _execute(folder, spec, args, cli)
    results = RunResults.read(folder, pass_reward=spec.pass_reward)
    report = folder / REPORT
    _write_report(results, report, cli, args.api_key)
    _show_results(results, cli, f"report: {report}")
    if outcome.counts["failed"]:
        cli.note(f"to run the failed ones again: {_resume_command(folder)} --retry-failed")
        return SOME_FAILED
    return 0


async def _resumed_spec(args: Namespace, cli: Cli) -> "TaskSpec":
    """Return the spec of the run in the folder, with the key and address of the command line."""
    from hermes.batch.evaluation import TaskSpec  # loads the agent

    if not args.resume:
        raise UsageError("which tasks?", hint=f"hermes eval run TASKS; TASKS is {SOURCE_HELP}")
    if args.output is None:
        raise UsageError("which run?", hint="hermes eval run --resume --output DIR")
    spec = decode_spec(read_run_file(args.output).spec)
    if not isinstance(spec, TaskSpec):
        raise UsageError(f"{args.output} is not a run of `hermes eval`", hint="hermes batch --help")
    model = msgspec.structs.replace(
        spec.model,
        home=str(cli.home.root),
        api_key=args.api_key,
        base_url=args.base_url or spec.model.base_url,
    )
    if not spec.oracle:
        model = await model.resolve(
            ProgressLine(cli.stderr),
            for_cluster=bool(args.ray),
            needs_price=args.budget is not None,
        )
    return msgspec.structs.replace(spec, model=model)


async def _spec(args: Namespace, cli: Cli) -> "TaskSpec":
    from hermes.batch.evaluation import CaptureSettings, TaskSpec  # loads the agent

    source = _absolute(args.source)
    usual = BENCHMARKS.get(args.source, Benchmark(backend="local", max_turns=30))
    given = ("temperature", "top_p", "max_tokens", "seed")
    toolsets = tuple(filter(None, args.toolsets.split(","))) or usual.toolsets
    rollout = RolloutOptions(
        toolsets=toolsets,
        backend=args.backend or usual.backend,
        max_turns=args.max_turns or usual.max_turns,
        timeout=args.timeout,
    )
    spec = TaskSpec(
        source=source,
        options=dict(args.option),
        patterns=_patterns(args),
        limit=args.limit,
        sampling={name: value for name in given if (value := getattr(args, name)) is not None},
        rollout=rollout,
        repeats=args.repeats,
        capture=CaptureSettings(args.capture, args.parser) if args.capture else None,
        pass_reward=PASS_REWARD if args.pass_reward is None else args.pass_reward,
    )
    spec.tasks()  # report what is wrong with them before the model is looked up
    return msgspec.structs.replace(spec, model=await _model(args, cli))


async def _model(args: Namespace, cli: Cli) -> "RunModel":
    """Return the model of the run: that of `hermes chat`, unless options name another."""
    from hermes.batch.models import RunModel  # loads the agent

    model = RunModel(
        name=args.model,
        provider=args.provider,
        base_url=args.base_url,
        api_key=args.api_key,
        home=str(cli.home.root),
    )
    return await model.resolve(
        ProgressLine(cli.stderr), for_cluster=bool(args.ray), needs_price=args.budget is not None
    )


def _absolute(source: str) -> str:
    """Return the source with an absolute path, so that every worker finds it."""
    path, colon, name = source.rpartition(":")
    if not path.endswith(".py"):
        path, colon, name = source, "", ""
    is_path = source not in BUILTIN and (path.endswith(".py") or Path(path).is_dir())
    return f"{Path(path).resolve()}{colon}{name}" if is_path else source


def _patterns(args: Namespace) -> tuple[str, ...]:
    return tuple(name.strip() for name in args.patterns.split(",") if name.strip())


def _run_name(spec: "TaskSpec") -> str:
    source = Path(spec.source.partition(".py")[0]).name
    model = spec.model.resolved.partition(":")[2]
    return re.sub(r"[^\w.-]+", "-", f"{source}-{Path(model).name}").strip("-.")


async def _execute(folder: Path, spec: "TaskSpec", args: Namespace, cli: Cli) -> RunOutcome:
    """Execute the run. Raises if it did not end."""
    usual = BENCHMARKS.get(spec.source, Benchmark())
    options = RunOptions(
        concurrency=args.concurrency or usual.concurrency or CONCURRENCY,
        processes=args.processes,
        ray_address=args.ray,
        budget_usd=getattr(args, "budget", None),
        retry_failed=args.retry_failed,
    )
    view = RunProgressView(cli, options.budget_usd, has_price=spec.price() is not None)
    try:
        async with BatchRun(folder, spec, options, view.show) as run:
            outcome = await run.execute()
    finally:
        view.end()
    left = outcome.counts["pending"] + outcome.counts["leased"]
    again = f"to continue: {_resume_command(folder)}"
    match outcome.ended:
        case "interrupted":
            raise Interrupted(f"stopped; {many(left, 'rollout')} left", hint=again)
        case "budget":
            raise BudgetSpent(
                f"the budget of ${args.budget:g} is spent; {many(left, 'rollout')} left",
                hint=f"{again} --budget USD",
            )
        case "complete":
            return outcome


def _resume_command(folder: Path) -> str:
    return shlex.join(["hermes", "eval", "run", "--resume", "--output", str(folder)])


@COMMAND.action(
    "tasks", "list the tasks of a set", arg("source", metavar="TASKS", help=SOURCE_HELP),
    *SELECTION, json=True,
)  # fmt: skip
def _tasks(args: Namespace, cli: Cli) -> None:
    with redirect_stdout(cli.stderr):
        loaded = load_tasks(args.source, dict(args.option))
    tasks = select_tasks(loaded, _patterns(args), args.limit)
    rows = [
        {
            "task": task.key,
            "prompt": task.prompt,
            "rewards": [name for name, score in task.scores().items() if score.kind == "reward"],
            "image": task.image,
            "solution": hasattr(task, "solve"),
            "hash": task.hash,
        }
        for task in tasks
    ]
    lines = table([
        (plain_line(str(row["task"])), plain_line(str(row["prompt"]))[:70]) for row in rows
    ])  # fmt: skip
    cli.emit(rows, [*lines, "", many(len(rows), "task")])


@COMMAND.action(
    "oracle",
    "run the solutions of a task set, which must pass",
    arg("source", metavar="TASKS", help=SOURCE_HELP),
    *SELECTION,
    *EXECUTION,
    arg("-o", "--output", type=Path, metavar="DIR", help="keep the run in this folder"),
    json=True,
)
async def _oracle(args: Namespace, cli: Cli) -> int:
    from hermes.batch.evaluation import TaskSpec  # loads the agent

    usual = BENCHMARKS.get(args.source, Benchmark(backend="local"))
    spec = TaskSpec(
        source=_absolute(args.source),
        options=dict(args.option),
        patterns=_patterns(args),
        limit=args.limit,
        rollout=RolloutOptions(backend=args.backend or usual.backend),
        repeats=args.repeats,
        oracle=True,
        pass_reward=PASS_REWARD if args.pass_reward is None else args.pass_reward,
    )
    with ExitStack() as stack:
        folder = args.output
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-oracle-")))
        with redirect_stdout(cli.stderr):
            outcome = await _execute(folder, spec, args, cli)
        results = RunResults.read(folder, pass_reward=spec.pass_reward)
    _show_results(results, cli)
    for trace in results.failed:
        assert trace.failure is not None
        cli.note(f"hermes: {trace.task_key}: {plain_line(trace.failure.message)}")
    summary = results.summary()
    wrong = outcome.counts["failed"] + summary.scored - summary.passed
    if wrong:
        cli.note(f"hermes: {many(wrong, 'solution')} did not pass: the tasks or rewards are wrong")
    return SOME_FAILED if wrong else 0


def _show_results(results: RunResults, cli: Cli, last: str = "") -> None:
    summary, tasks = results.summary(), results.tasks()
    if cli.as_json:
        cli.json({"summary": summary, "tasks": tasks})
        return
    rows = [("task", "passed", "reward", "cost", "time", "failed")]
    rows += [
        (
            plain_line(task.key),
            f"{task.passed}/{task.scored}",
            decimal(task.reward),
            money(task.cost_usd),
            seconds(task.seconds),
            f"{task.failures or ''}",
        )
        for task in tasks[:SHOWN_TASKS]
    ]
    for line in table(rows, numbers=(1, 2, 3, 4, 5)):
        cli.show(line)
    if len(tasks) > SHOWN_TASKS:
        cli.say(f"… and {len(tasks) - SHOWN_TASKS} more")
    cli.say("\n" + "\n".join([*_summary_lines(summary), *([last] if last else [])]))


def _summary_lines(summary: RunSummary) -> Iterable[str]:
    rate = summary.rate
    shown = "no rollout was scored"
    if rate is not None:
        interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
        shown = f"pass rate {percent(rate.value)} ({interval})"
    yield (
        f"{shown}, mean reward {decimal(summary.reward)},"
        f" cost {'unknown' if summary.cost_usd is None else money(summary.cost_usd)},"
        f" {seconds(summary.seconds)}"
    )
    if summary.failures:
        parts = ", ".join(f"{count} {name}" for name, count in sorted(summary.boundaries.items()))
        yield f"failed and not scored: {many(summary.failures, 'rollout')} ({parts})"


# Results.

RUN = arg("run", type=Path, metavar="RUN", help="the folder of a run, or a file of traces")
PASS = arg("--pass-reward", type=float, metavar="X", help="the reward with which a rollout passes")
FORCE = flag("--force", help="replace OUT when it exists")


def _read(run: Path, args: Namespace) -> RunResults:
    limit = args.pass_reward
    if limit is None and (run / SPEC).is_file():
        spec: dict[str, Any] = msgspec.json.decode(read_run_file(run).spec)
        limit = spec.get("pass_reward")
    return RunResults.read(run, pass_reward=PASS_REWARD if limit is None else limit)


def _redactor(cli: Cli, *secrets: str) -> Redactor:
    return Redactor(cli.load().secrets() | stored_secrets(cli.home) | set(filter(None, secrets)))


def _write_report(results: RunResults, file: Path, cli: Cli, *secrets: str) -> Report:
    report = Report(results, _redactor(cli, *secrets).redact)
    with ops.replaced(file, overwrite=True) as out:
        out.write(report.render())
    return report


@COMMAND.action(
    "report",
    "write the HTML report of a run",
    RUN,
    arg("-o", "--out", type=Path, metavar="OUT", help=f"the file (RUN/{REPORT})"),
    PASS,
    FORCE,
    json=True,
)
def _report(args: Namespace, cli: Cli) -> None:
    results = _read(args.run, args)
    if cli.as_json:
        cli.json({"summary": results.summary(), "tasks": results.tasks()})
        return
    file = args.out or (args.run / REPORT if args.run.is_dir() else args.run.with_suffix(".html"))
    if args.out:
        ops.check_output(file, overwrite=args.force)
    report = _write_report(results, file, cli)
    for line in _summary_lines(results.summary()):
        cli.say(line)
    if report.left_out:
        cli.say(f"the conversations of {many(report.left_out, 'trace')} are left out of the page")
    cli.say(f"wrote {file}")


@COMMAND.action(
    "compare",
    "show what changed from one run to another",
    arg("before", type=Path, metavar="A", help="the folder of the first run"),
    arg("after", type=Path, metavar="B", help="the folder of the second run"),
    arg("-o", "--out", type=Path, metavar="OUT", help="also write an HTML page"),
    PASS,
    FORCE,
    json=True,
)
def _compare(args: Namespace, cli: Cli) -> None:
    comparison = compare(_read(args.before, args), _read(args.after, args))
    if args.out:
        ops.check_output(args.out, overwrite=args.force)
        page = render_comparison(comparison, _redactor(cli).redact)
        with ops.replaced(args.out, overwrite=args.force) as out:
            out.write(page)
    if cli.as_json:
        cli.json(comparison)
        return
    for line in _comparison_lines(comparison):
        cli.show(line)
    if args.out:
        cli.say(f"wrote {args.out}")


def _comparison_lines(comparison: Comparison) -> Iterable[str]:
    rows: list[Sequence[str]] = [
        ("task", "state", "before", "after", "points", "95 % interval", "cost", "time")
    ]
    for task in comparison.tasks:
        sides = (task.before, task.after)
        rates = [percent(side.rate.value) if side and side.rate else "–" for side in sides]
        costs = [money(side.cost_usd) if side else "–" for side in sides]
        times = [seconds(side.seconds) if side else "–" for side in sides]
        rows.append((
            plain_line(task.key), change_state(task)[0], *rates,
            points(task.change.value) if task.change else "–", change_interval(task.change),
            " → ".join(costs), " → ".join(times),
        ))  # fmt: skip
    yield from table(rows, numbers=(2, 3, 4))
    found, before, after = comparison.change, comparison.before_rate, comparison.after_rate
    yield ""
    if found is None or before is None or after is None:
        yield "no task was scored in both runs with the same content"
        return
    yield (
        f"pass rate {percent(before.value)} → {percent(after.value)}: {points(found.value)} points,"
        f" 95 % interval {change_interval(found)}, {many(comparison.paired, 'task')} paired"
    )
    counts = {
        "improved": comparison.improved,
        "worse": comparison.worse,
        "new": comparison.new,
        "missing": comparison.missing,
    }
    yield ", ".join(f"{len(tasks)} {name}" for name, tasks in counts.items())
    one, two = comparison.before, comparison.after
    yield (
        f"cost {money(one.cost_usd)} → {money(two.cost_usd)},"
        f" time {seconds(one.seconds)} → {seconds(two.seconds)}"
    )


@COMMAND.action(
    "export",
    "write conversations or tokens for training",
    RUN,
    arg("--to", choices=("sharegpt", "atif", "samples"), required=True, help="the format"),
    arg("-o", "--out", type=Path, metavar="OUT",
        help="the file (standard output); for atif a new folder"),
    arg("--min-reward", type=float, metavar="X", help="only traces with at least this reward"),
    arg("--inexact", choices=("refuse", "skip", "keep"), default="refuse",
        help="samples whose tokens are not known exactly (refuse)"),
    PASS,
    FORCE,
)  # fmt: skip
def _export(args: Namespace, cli: Cli) -> None:
    results = _read(args.run, args)
    if args.to == "atif":
        _export_atif(results, args, cli)
        return
    if args.to == "samples":
        entries = _exact_samples(results, args)
        lines = [msgspec.json.encode(entry).decode() for entry in entries]
    else:
        redact = _redactor(cli).redact
        found = sharegpt_entries(results, args.min_reward)
        lines = [redact(msgspec.json.encode(entry).decode()) for entry in found]
    if not lines:
        raise UsageError("no trace has such a reward; nothing was written")
    if args.out is None:
        for line in lines:
            cli.show(line)
        return
    with ops.replaced(args.out, overwrite=args.force) as out:
        out.writelines(f"{line}\n" for line in lines)
    cli.say(f"wrote {many(len(lines), 'line')} to {args.out}")


def _exact_samples(results: RunResults, args: Namespace) -> Sequence[dict[str, Any]]:
    entries = list(sample_entries(results, args.min_reward))
    inexact = sum(not entry["token_exact"] for entry in entries)
    if inexact and args.inexact == "refuse":
        raise UsageError(
            f"{inexact} of {many(len(entries), 'sample')} are not token-exact: training on them"
            " would be wrong",
            hint="run with --capture KIND; or --inexact skip leaves them out, keep marks them",
        )
    return [entry for entry in entries if entry["token_exact"] or args.inexact == "keep"]


def _export_atif(results: RunResults, args: Namespace, cli: Cli) -> None:
    if args.out is None:
        raise UsageError("atif writes one file a trajectory", hint="name a folder: --out DIR")
    if args.out.exists() and not args.force:
        raise UsageError(f"{args.out} exists already", hint="--force writes into it")
    redact, count = _redactor(cli).redact, 0
    try:
        args.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {args.out}: {error.strerror}") from error
    for count, (key, entry) in enumerate(atif_entries(results, args.min_reward), start=1):
        name = re.sub(r"[^\w.-]+", "-", key)[:80].strip("-.") or "task"
        with ops.replaced(args.out / f"{count:05}-{name}.json", overwrite=True) as out:
            out.write(redact(msgspec.json.encode(entry).decode()))
    if not count:
        raise UsageError("no trace has such a reward; nothing was written")
    cli.say(f"wrote {count:,} {'trajectory' if count == 1 else 'trajectories'} to {args.out}")
