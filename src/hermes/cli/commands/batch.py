"""`hermes batch`: generate trajectories from a dataset of prompts, and shorten them."""

import argparse
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.batch.compressor import (
    CompressorOptions,
    TrajectoryCompressor,
    compress_file,
    plan_files,
)
from hermes.batch.distributions import find_distribution, list_distributions
from hermes.batch.ledger import SPEC, ItemRecord, RunStatus, read_items, read_run
from hermes.cli.context import Arg, Cli, Command, ProgressLine, arg, flag, table
from hermes.cli.output import RunProgressView, amount, positive
from hermes.cli.session import split_names
from hermes.core.errors import BudgetSpent, Interrupted, UsageError
from hermes.util.text import human_duration, many, plain_line

if TYPE_CHECKING:
    from hermes.batch import RunOutcome
    from hermes.batch.prompts import PromptSampling, PromptSpec

DATA = "data"  #: The folder of all runs.
SOME_FAILED = 1  #: The exit code if rollouts failed.
NUM_WORKERS = 4
IN_PROCESS = 16
"""Up to so many rollouts at the same time run in this process; more in a process for each core."""
SHOWN_FAILURES = 10
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")

COMMAND = Command("batch")


# Arguments.


def _accept_underscores(parser: ArgumentParser) -> None:
    """Accept `--batch_size` for `--batch-size`, without listing it in the help."""
    actions = parser._option_string_actions  # noqa: SLF001 - argparse has no hidden aliases
    for name, action in list(actions.items()):
        if name.startswith("--"):
            actions.setdefault("--" + name[2:].replace("-", "_"), action)


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2")
    return value


def _number(name: str, help: str, **options: Any) -> Arg:  # noqa: A002 - the name argparse uses
    return arg(name, type=positive, metavar="N", help=help, **options)


OUT = arg("--out", type=Path, default=Path(DATA), metavar="DIR", help=f"folder of runs ({DATA})")


# Runs.


@COMMAND.action(
    "run",
    "generate a trajectory for each prompt of a dataset",
    arg("dataset", nargs="?", type=Path, metavar="DATASET", help="JSON Lines file with prompts"),
    arg("--dataset-file", type=Path, dest="dataset_file", metavar="FILE", help=SUPPRESS),
    arg("--run-name", metavar="NAME", help="name of the run (that of the file)"),
    OUT,
    _number("--batch-size", "prompts in one output file (10)"),
    _number("--num-workers", f"rollouts at the same time ({NUM_WORKERS})", default=NUM_WORKERS),
    arg("--processes", type=int, metavar="N", help="worker processes; 0: this one"),
    arg("--ray", nargs="?", const="auto", metavar="ADDRESS", help="run on a Ray cluster"),
    arg("--distribution", metavar="NAME", help="how toolsets are drawn, or a file (default)"),
    flag("--resume", help="continue the run"),
    flag("--retry-failed", help="with --resume: run failed prompts again"),
    arg("--budget", type=amount, metavar="USD", help="stop before the run costs more"),
    _number("--max-samples", "only the first prompts"),
    _number("--repeats", "rollouts of each prompt (1)"),
    arg("-m", "--model", metavar="NAME", help="model to use"),
    arg("--provider", metavar="ID", help="provider to use"),
    arg("--base-url", metavar="URL", help="URL of an OpenAI-compatible endpoint"),
    arg("--api-key", metavar="KEY", help="key for it; it is not stored"),
    _number("--max-turns", "most model calls of a prompt (10)"),
    _number("--max-tokens", "most tokens of a reply"),
    arg("--temperature", type=_temperature, metavar="T", help="sampling temperature"),
    arg("--reasoning-effort", choices=EFFORTS, help="how much the model reasons"),
    flag("--reasoning-disabled", help="no reasoning; keeps samples without it"),
    flag("--keep-without-reasoning", help="keep samples that have no reasoning"),
    arg("--providers-allowed", metavar="NAMES", help="OpenRouter: only these providers"),
    arg("--providers-ignored", metavar="NAMES", help="OpenRouter: not these providers"),
    arg("--providers-order", metavar="NAMES", help="OpenRouter: providers in this order"),
    arg("--provider-sort", choices=("price", "throughput", "latency"), help="OpenRouter: order by"),
    arg("--ephemeral-system-prompt", metavar="TEXT", help="system prompt that is not saved"),
    arg("--prefill-messages-file", type=Path, metavar="FILE", help="first messages, not saved"),
    arg("--backend", metavar="NAME", help="where commands run (that of the settings)"),
    arg("--seed", type=int, metavar="N", help="of the drawn toolsets (0)"),
    flag("-v", "--verbose", help="list every failed prompt at the end"),
    arg("--log-prefix-chars", type=int, help=SUPPRESS),  # documented; our log has no such lines
    json=True,
    setup=_accept_underscores,
)
async def _run(args: Namespace, cli: Cli) -> int:
    dataset: Path | None = args.dataset or args.dataset_file
    name = args.run_name or (dataset.stem if dataset else "")
    if not name:
        raise UsageError("no dataset was named", hint="hermes batch run prompts.jsonl")
    if name in (".", "..") or "/" in name:
        raise UsageError(f"{name!r} is not a name of a run", hint="--out names the folder of runs")
    folder: Path = args.out / name
    continued = (folder / SPEC).exists()
    if continued and not args.resume:
        raise UsageError(
            f"there is a run in {folder} already",
            hint=f"to continue it: {_resume_command(args, name)}; or choose another --run-name",
        )
    if args.retry_failed and not continued:
        raise UsageError(f"there is no run in {folder} to retry", hint="leave out --retry-failed")
    if dataset is None and not continued:
        raise UsageError(f"there is no run in {folder}", hint="hermes batch list")
    spec = await _make_spec(args, cli, dataset, folder if continued else None)
    if args.budget is not None and spec.price() is None:
        provider, _, model = spec.model.resolved.partition(":")
        raise UsageError(
            f"the price of {model} is not known, so a budget cannot be kept",
            hint=f"set `input` and `output` of providers.{provider}.models.{model}.price in"
            " config.yaml (US dollars for a million tokens), or leave out --budget",
        )
    from hermes.batch import BatchRun, RunOptions  # loads the agent

    options = RunOptions(
        concurrency=args.num_workers,
        processes=_processes(args),
        ray_address=args.ray or "",
        budget_usd=args.budget,
        retry_failed=args.retry_failed,
    )
    cli.note(f"run {name}: {spec.model.resolved}, tools of {spec.distribution.name}, in {folder}")
    view = RunProgressView(cli, args.budget, has_price=spec.price() is not None)
    try:
        async with BatchRun(folder, spec, options, on_progress=view.show) as run:
            outcome = await run.execute()
    finally:
        view.end()
    return _report_outcome(args, cli, folder, outcome, has_price=spec.price() is not None)


def _processes(args: Namespace) -> int | None:
    given: int | None = args.processes
    if given is not None and given < 0:
        raise UsageError("--processes must be at least 0")
    if given is not None or args.ray:
        return given
    return 0 if args.num_workers <= IN_PROCESS else None


async def _make_spec(
    args: Namespace, cli: Cli, dataset: Path | None, continued: Path | None
) -> "PromptSpec":
    """Return the spec of a new run or, with its folder, of one that is continued."""
    from hermes.batch.models import RunModel  # these load the agent
    from hermes.batch.prompts import (
        PromptSampling,
        continue_prompts,
        plan_prompts,
        read_prefill,
        read_spec,
    )

    model = RunModel(
        name=args.model or "",
        provider=args.provider or "",
        base_url=args.base_url or "",
        api_key=args.api_key or "",
        home=str(cli.home.root),
    )
    fields: dict[str, Any] = {
        "batch_size": args.batch_size,
        "max_samples": args.max_samples,
        "repeats": args.repeats,
        "max_turns": args.max_turns,
        "system_prompt": args.ephemeral_system_prompt,
        "backend": args.backend,
        "seed": args.seed,
        "keep_without_reasoning": args.keep_without_reasoning or args.reasoning_disabled or None,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if args.prefill_messages_file:
        fields["prefill"] = read_prefill(args.prefill_messages_file)
    base = read_spec(continued).sampling if continued else PromptSampling()
    options: dict[str, Any] = {
        "progress": ProgressLine(cli.stderr),
        "for_cluster": bool(args.ray),
        "needs_price": args.budget is not None,
        "sampling": _sampling(args, base),
        **fields,
    }
    if continued is None:
        assert dataset is not None  # checked by the caller
        return await plan_prompts(dataset, model, args.distribution or "default", **options)
    if dataset is not None:
        options["dataset"] = str(dataset.absolute())
    if args.distribution:
        options["distribution"] = find_distribution(args.distribution)
    return await continue_prompts(continued, model, **options)


def _sampling(args: Namespace, base: "PromptSampling") -> "PromptSampling":
    effort = "none" if args.reasoning_disabled else args.reasoning_effort
    given = {
        "max_tokens": args.max_tokens,
        "temperature": args.temperature,
        "reasoning_effort": effort,
        "providers": {
            key: list(split_names([names]))
            for key, names in (
                ("only", args.providers_allowed),
                ("ignore", args.providers_ignored),
                ("order", args.providers_order),
            )
            if names
        }
        | ({"sort": args.provider_sort} if args.provider_sort else {}),
    }
    changes = {name: value for name, value in given.items() if value not in (None, {})}
    return msgspec.structs.replace(base, **changes)


def _report_outcome(
    args: Namespace, cli: Cli, folder: Path, outcome: "RunOutcome", *, has_price: bool
) -> int:
    from hermes.batch.statistics import TRAJECTORIES, finish_run  # loads all tools

    statistics = finish_run(folder)
    counts = outcome.counts
    ended = ", ".join(f"{counts[s]:,} {s}" for s in ("done", "discarded", "failed"))
    left = counts["pending"] + counts["leased"]
    waiting = f", {left:,} left" if left else ""
    total = many(sum(counts.values()), "rollout")
    took = human_duration(outcome.seconds)
    cost = f"; ${outcome.cost_usd:,.4f} in all" if has_price else ""
    lines = [f"{ended}{waiting} of {total} in {took}{cost}"]
    lines += _failure_lines(folder, None if args.verbose else SHOWN_FAILURES)
    lines.append(f"{statistics['trajectories']['total']:,} lines in {folder / TRAJECTORIES}")
    cli.emit({"ended": outcome.ended, **statistics}, lines)
    command = _resume_command(args, folder.name)
    if outcome.ended == "interrupted":
        cli.note(f"stopped; to continue: {command}")
        return Interrupted.exit_code
    if outcome.ended == "budget":
        cli.note(f"the budget is spent; to continue: {command} --budget MORE")
        return BudgetSpent.exit_code
    if counts["discarded"] and not counts["done"]:
        cli.note("every conversation was discarded; see --keep-without-reasoning")
    if counts["failed"]:
        cli.note(f"to run the failed ones again: {command} --retry-failed")
        return SOME_FAILED
    return 0


def _resume_command(args: Namespace, name: str) -> str:
    out = "" if args.out == Path(DATA) else f" --out {args.out}"
    key = " --api-key KEY" if args.api_key else ""
    return f"hermes batch run --run-name {name}{out}{key} --resume"


def _failure_lines(folder: Path, most: int | None) -> list[str]:
    failed = list(read_items(folder, "failed"))
    lines = [f"  failed: {_describe(item)}" for item in failed[:most]]
    if most is not None and len(failed) > most:
        lines.append(f"  … and {len(failed) - most:,} more: hermes batch status {folder} --failed")
    return lines


def _describe(item: ItemRecord) -> str:
    repeat = f" repeat {item.repeat}" if item.repeat else ""
    return f"prompt {item.index}{repeat}: {item.boundary}: {plain_line(item.reason)}"


# The state of runs.


def _find_run(name: str, out: Path) -> Path:
    """Return the folder of a run, given as a name or as a folder."""
    for folder in (out / name, Path(name)):
        if (folder / SPEC).is_file():
            return folder
    raise UsageError(f"there is no run {name}", hint=f"`hermes batch list --out {out}` shows them")


@COMMAND.action(
    "status",
    "show the state of a run, also while it runs",
    arg("run", metavar="RUN", help="name or folder of the run"),
    OUT,
    flag("--failed", help="list all failed prompts"),
    json=True,
)
def _status(args: Namespace, cli: Cli) -> None:
    folder = _find_run(args.run, args.out)
    status = read_run(folder)
    if cli.as_json:
        failed = [msgspec.to_builtins(item) for item in read_items(folder, "failed")]
        cli.json({**msgspec.to_builtins(status), "total": status.total, "failed_items": failed})
        return
    cli.say(_summary(folder, status))
    cost = f", ${status.cost_usd:,.4f}" if status.cost_usd else ""
    cli.say(f"{status.api_calls:,} model calls, {status.usage.total:,} tokens{cost}")
    discarded = read_items(folder, "discarded")
    reasons: dict[str, int] = {}
    for item in discarded:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    for reason, count in reasons.items():
        cli.say(f"  discarded: {count:,} with {plain_line(reason)}")
    for line in _failure_lines(folder, None if args.failed else SHOWN_FAILURES):
        cli.say(line)


def _summary(folder: Path, status: RunStatus) -> str:
    counts = status.counts
    left = counts["pending"] + counts["leased"]
    state = "running" if status.running else "stopped" if left else "complete"
    shown = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n or name == "done")
    return f"{folder}: {state}; {shown} of {many(status.total, 'rollout')}"


@COMMAND.action("list", "list the runs", OUT, json=True)
def _list(args: Namespace, cli: Cli) -> None:
    folders = sorted(path.parent for path in args.out.glob(f"*/{SPEC}"))
    runs = [(folder, read_run(folder)) for folder in folders]
    found = [
        {"run": str(folder), **msgspec.to_builtins(status), "total": status.total}
        for folder, status in runs
    ]
    text = [_summary(folder, status) for folder, status in runs]
    cli.emit(found, text, empty=f"there is no run in {args.out}")


@COMMAND.action("distributions", "list the toolset distributions", json=True)
def _distributions(_args: Namespace, cli: Cli) -> None:
    shipped = list_distributions()
    rows = [
        (each.name, each.description, ", ".join(f"{t} {p:g} %" for t, p in each.toolsets.items()))
        for each in shipped.values()
    ]
    cli.emit({name: msgspec.to_builtins(each) for name, each in shipped.items()}, table(rows))


# Compression.


@COMMAND.action(
    "compress",
    "shorten trajectories to a number of tokens",
    arg("source", type=Path, metavar="FILE", help="trajectory file, or the folder of a run"),
    arg("-o", "--output", type=Path, metavar="OUT", help="file or folder to write"),
    _number("--target-tokens", "most tokens of a trajectory (16000)", default=16_000),
    _number("--protect-first", "turns at the start that stay (4)", default=4),
    _number("--protect-last", "turns at the end that stay (4)", default=4),
    _number("--summary-tokens", "most tokens of a summary (750)", default=750),
    arg("-m", "--model", nargs="?", const="", metavar="NAME", help="let a model summarize"),
    arg("--provider", metavar="ID", help="provider of the model"),
    arg("--base-url", metavar="URL", help="URL of an OpenAI-compatible endpoint"),
    flag("--force", help="replace files that exist"),
    json=True,
    setup=_accept_underscores,
)
async def _compress(args: Namespace, cli: Cli) -> int:
    options = CompressorOptions(
        target_tokens=args.target_tokens,
        protect_first=args.protect_first,
        protect_last=args.protect_last,
        summary_tokens=args.summary_tokens,
    )
    uses_model = args.model is not None or args.provider or args.base_url
    if not uses_model:
        return await _compress_all(args, cli, TrajectoryCompressor(options))
    from hermes.batch.models import RunModel, open_summarizer  # loads the agent

    model = RunModel(
        name=args.model or "",
        provider=args.provider or "",
        base_url=args.base_url or "",
        home=str(cli.home.root),
    )
    async with open_summarizer(model, ProgressLine(cli.stderr)) as summarize:
        return await _compress_all(args, cli, TrajectoryCompressor(options, summarize))


async def _compress_all(args: Namespace, cli: Cli, compressor: TrajectoryCompressor) -> int:
    planned = plan_files(args.source, args.output)
    results: list[dict[str, Any]] = []
    for source, output in planned:
        if output.exists() and not args.force and args.source.is_dir():
            cli.note(f"{output} exists already and stays; --force replaces it")
            continue
        done = await compress_file(compressor, source, output, overwrite=args.force)
        for problem in done.invalid:
            cli.note(f"hermes: left out {plain_line(problem)}")
        before, after = done.tokens
        over = sum(metrics.over(args.target_tokens) for metrics in done.metrics)
        results.append(
            {
                "source": str(source),
                "output": str(output),
                "entries": len(done.metrics),
                "invalid": len(done.invalid),
                "tokens_before": before,
                "tokens_after": after,
                "over_target": over,
            }
        )
    cli.emit(results, line=_compressed_line)
    return SOME_FAILED if any(result["invalid"] for result in results) else 0


def _compressed_line(result: dict[str, Any]) -> str:
    over = f"; {result['over_target']:,} are still longer" if result["over_target"] else ""
    entries = "trajectory" if result["entries"] == 1 else "trajectories"
    return (
        f"{result['output']}: {result['entries']:,} {entries}, about"
        f" {result['tokens_before']:,} tokens before, {result['tokens_after']:,} after{over}"
    )
