"""`batch_runner`, `trajectory_compressor` and `toolset_distributions`: runs of prompts as `hermes
batch` has them, under the documented names."""

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from hermes.batch import compressor, distributions
from hermes.batch.statistics import STATISTICS
from hermes.cli.context import Cli, run_command
from hermes.cli.main import find_entry
from hermes.cli.main import main as run_hermes
from hermes.config.home import current_home
from hermes.store import Turn
from hermes.util.concurrency import LoopThread

DATA = Path("data")  #: The documented folder of runs.

Names = str | Sequence[str] | None
"""One name, names with commas, or several names."""


class BatchRunner:
    """A run of prompts. The parameters are the options of `hermes batch run`; `more` has those
    that are not listed, such as `repeats=4`."""

    def __init__(
        self,
        dataset_file: str | Path,
        batch_size: int = 10,
        run_name: str = "",
        distribution: str = "default",
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_turns: int = 10,
        num_workers: int = 4,
        verbose: bool = False,
        max_samples: int | None = None,
        max_tokens: int | None = None,
        providers_allowed: Names = None,
        providers_ignored: Names = None,
        providers_order: Names = None,
        provider_sort: str | None = None,
        reasoning_effort: str | None = None,
        reasoning_disabled: bool = False,
        ephemeral_system_prompt: str | None = None,
        log_prefix_chars: int = 100,
        prefill_messages_file: str | Path | None = None,
        **more: Any,
    ) -> None:
        given = locals()
        self._options = {
            name: value
            for name, value in {**given, **more}.items()
            if name not in ("self", "more", "dataset_file")
            and not (value is None or value is False or value == "")
        }
        self._dataset = str(dataset_file)
        self.run_name = run_name or Path(dataset_file).stem
        self.output_dir = Path(more.get("out", DATA)) / self.run_name

    def run(self, resume: bool = False) -> dict[str, Any]:
        """Run or continue, and return the statistics: those of `statistics.json`. `exit_code` is
        0 if every prompt has ended without a failure; see `hermes batch run --help`.

        Raises `UsageError` for wrong options or an invalid dataset.
        """
        words = [self._dataset, *(["--resume"] if resume else [])]
        for name, value in self._options.items():
            flag = f"--{name.replace('_', '-')}"
            text = value if isinstance(value, str | Path) or value is True else _joined(value)
            words.append(flag if value is True else f"{flag}={text}")
        entry = find_entry("batch")
        assert entry is not None
        args = entry.parser().parse_args(["run", *words])
        cli = Cli(current_home(), sys.stdin, sys.stdout, sys.stderr)
        code = _without_event_loop(lambda: run_command(args, cli))
        statistics = msgspec.json.decode((self.output_dir / STATISTICS).read_bytes())
        return {**statistics, "exit_code": code}


def _joined(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _without_event_loop(work: Any) -> int:
    """Call `work`, which runs an event loop; in a thread, where the caller runs one already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return int(work())
    with ThreadPoolExecutor(1) as threads:
        return int(threads.submit(work).result())


class ScriptCompressor:
    """`TrajectoryCompressor` for scripts that are not async. Without a model, summaries are
    extracts; `hermes batch compress --model` lets a model write them."""

    def __init__(
        self,
        target_tokens: int = 16_000,
        protect_first: int = 4,
        protect_last: int = 4,
        summary_tokens: int = 750,
    ) -> None:
        options = compressor.CompressorOptions(
            target_tokens=target_tokens,
            protect_first=protect_first,
            protect_last=protect_last,
            summary_tokens=summary_tokens,
        )
        self._compressor = compressor.TrajectoryCompressor(options)

    def compress(self, conversations: Sequence[Turn]) -> list[Turn]:
        """Return the turns of a trajectory within the target."""
        loop = LoopThread("hermes-compressor")
        try:
            return loop.run(self._compressor.compress(conversations))[0]
        finally:
            loop.close()

    def compress_file(
        self, source: str | Path, output: str | Path | None = None, *, force: bool = False
    ) -> list[dict[str, Any]]:
        """Compress a file or a folder; return `source`, `output` and `metrics` of each file.

        Raises `UsageError` if an output file exists, unless `force` is set.
        """
        loop, done = LoopThread("hermes-compressor"), list[dict[str, Any]]()
        try:
            for each, target in compressor.plan_files(
                Path(source), Path(output) if output is not None else None
            ):
                work = compressor.compress_file(self._compressor, each, target, overwrite=force)
                done.append(msgspec.to_builtins(loop.run(work), enc_hook=str))
        finally:
            loop.close()
        return done


def list_distributions() -> dict[str, dict[str, Any]]:
    """Return `description` and `toolsets` (name and probability in percent) by name."""
    return {
        name: {"description": each.description, "toolsets": dict(each.toolsets)}
        for name, each in distributions.list_distributions().items()
    }


# The scripts `batch_runner.py` and `trajectory_compressor.py`.

SWITCHES = ("resume", "retry_failed", "verbose", "reasoning_disabled", "keep_without_reasoning")
"""Options that may also be written as `--resume=True` or `--resume True`."""
NO = ("false", "0", "no")
COMPRESSOR_NAMES = {"target_max_tokens": "target-tokens", "max_tokens": "target-tokens"}


def batch_runner_words(argv: Sequence[str]) -> list[str]:
    """Return the command of `hermes` for the options of `batch_runner.py`."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
        if word.startswith("--") and name == "list_distributions":
            return ["batch", "distributions"]
        if not word.startswith("--") or name not in SWITCHES:
            words.append(word)
            continue
        if not equals and rest and rest[0].lower() in ("true", *NO[:1]):
            value = rest.pop(0)
        if value.lower() not in NO:
            words.append(f"--{name}")
    return ["batch", "run", *words]


def compressor_words(argv: Sequence[str]) -> list[str]:
    """Return the command of `hermes` for the options of `trajectory_compressor.py`."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--") and name == "input":
            words.append(value if equals else "".join(rest[:1]))
            rest = rest if equals else rest[1:]
        elif word.startswith("--") and name in COMPRESSOR_NAMES:
            words.append(f"--{COMPRESSOR_NAMES[name]}{equals}{value}")
        else:
            words.append(word)
    return ["batch", "compress", *words]


def run_batch_script() -> int:
    """Entry point of `batch_runner.py`; return its exit code."""
    return run_hermes(batch_runner_words(sys.argv[1:]))


def run_compressor_script() -> int:
    """Entry point of `trajectory_compressor.py`; return its exit code."""
    return run_hermes(compressor_words(sys.argv[1:]))
