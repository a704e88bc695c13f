"""What a run of prompts produced: counts of tools and states, and the files at its end.

`batch_NNN_output.jsonl` gets its lines in the order in which rollouts end. `finish_run` writes all
lines in the order of the dataset to `trajectories.jsonl`, and the counts to `statistics.json` and
`checkpoint.json`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from hermes.batch.ledger import RunStatus, read_items, read_run
from hermes.core.messages import ToolResult
from hermes.ops import replaced
from hermes.ops.output_files import report_unwritable
from hermes.store import Turn
from hermes.store.trajectory import THOUGHT
from hermes.tools import discover_builtin
from hermes.tools.registry import registry
from hermes.util.files import write_bytes

TRAJECTORIES, STATISTICS, CHECKPOINT = "trajectories.jsonl", "statistics.json", "checkpoint.json"
BATCH_FILES = "batch_*_output.jsonl"
REPEAT = "repeat"  #: The field of `metadata` that tells the rollouts of one row apart.

ToolCounts = dict[str, int]
"""`count`, `success` and `failure` of a tool."""


@cache
def known_tools() -> tuple[str, ...]:
    """Return the names of all tools. Every line of a run has a count for each of them, so that
    all lines have the same fields."""
    discover_builtin(registry)
    return tuple(sorted(entry.name for entry in registry.entries))


def count_tools(results: Iterable[ToolResult]) -> dict[str, ToolCounts]:
    """Return the calls of each known tool by their outcome. Calls of tools that do not exist are
    not counted."""
    counts = {name: {"count": 0, "success": 0, "failure": 0} for name in known_tools()}
    for result in results:
        if result.name in counts:
            counts[result.name]["count"] += 1
            counts[result.name]["failure" if result.failed else "success"] += 1
    return counts


def has_reasoning(turns: Sequence[Turn]) -> bool:
    """Return whether the model reasoned in at least one turn."""
    return any(map(_reasons, turns))


def _reasons(turn: Turn) -> bool:
    found = THOUGHT.match(turn["value"]) if turn["from"] == "gpt" else None
    return found is not None and bool(found[1].strip())


# The files at the end of a run.


class _OutputLine(msgspec.Struct):
    """The fields of an output line that are counted."""

    prompt_index: int
    conversations: list[Turn]
    metadata: dict[str, Any]
    completed: bool
    partial: bool
    toolsets_used: list[str]
    tool_stats: dict[str, ToolCounts]


class _Totals:
    """Sums over the lines of a run."""

    def __init__(self) -> None:
        self.lines: Counter[str] = Counter(dict.fromkeys(("total", "completed", "partial"), 0))
        self.turns: Counter[str] = Counter(dict.fromkeys(("total", "with_reasoning"), 0))
        self.toolsets: Counter[str] = Counter()
        self.tools: dict[str, Counter[str]] = {}

    def add(self, line: _OutputLine) -> None:
        replies = [turn for turn in line.conversations if turn["from"] == "gpt"]
        self.lines.update(total=1, completed=line.completed, partial=line.partial)
        self.turns.update(total=len(replies), with_reasoning=sum(map(_reasons, replies)))
        self.toolsets.update(line.toolsets_used)
        for name, counts in line.tool_stats.items():
            self.tools.setdefault(name, Counter()).update(counts)


def finish_run(folder: Path) -> dict[str, Any]:
    """Write `trajectories.jsonl`, `statistics.json` and `checkpoint.json`; return the statistics.

    It may be called at any time and repeated; the result depends on the ledger and the lines only.
    """
    totals = _Totals()
    with replaced(folder / TRAJECTORIES, overwrite=True) as file:
        for data, line in _lines_in_order(folder):
            file.write(data.decode())
            totals.add(line)
    status = read_run(folder)
    statistics = _statistics(folder, status, totals)
    for name, content in (
        (STATISTICS, statistics),
        (CHECKPOINT, _checkpoint(folder, status)),
    ):
        with report_unwritable(folder / name):
            data = msgspec.json.format(msgspec.json.encode(content), indent=2)
            write_bytes(folder / name, data + b"\n")
    return statistics


def _lines_in_order(folder: Path) -> Iterator[tuple[bytes, _OutputLine]]:
    """Yield all lines in the order of the dataset. A batch has consecutive rows, so only its lines
    are in memory."""
    files = sorted(folder.glob(BATCH_FILES), key=lambda path: (len(path.name), path.name))
    for path in files:
        with path.open("rb") as file:
            lines = [(line, _decoder.decode(line)) for line in file]
        lines.sort(key=lambda pair: (pair[1].prompt_index, pair[1].metadata.get(REPEAT) or 0))
        yield from lines


_decoder = msgspec.json.Decoder(_OutputLine)


def _states(status: RunStatus) -> dict[str, int]:
    """Return the number of items in each state; those that are worked on now are pending."""
    counts = status.counts
    return {
        "done": counts["done"],
        "discarded": counts["discarded"],
        "failed": counts["failed"],
        "pending": counts["pending"] + counts["leased"],
    }


def _checkpoint(folder: Path, status: RunStatus) -> dict[str, Any]:
    states = _states(status)
    return {
        "run_name": folder.resolve().name,
        "state": "unfinished" if states["pending"] else "complete",
        "items": status.total,
        **states,
        "fingerprint": status.fingerprint,
    }


def _statistics(folder: Path, status: RunStatus, totals: _Totals) -> dict[str, Any]:
    failures = Counter(item.boundary or "unknown" for item in read_items(folder, "failed"))
    discarded = Counter(item.reason for item in read_items(folder, "discarded"))
    tools = {name: {**counts, **_rates(counts)} for name, counts in sorted(totals.tools.items())}
    return {
        "run_name": folder.resolve().name,
        "items": status.total,
        **_states(status),
        "trajectories": totals.lines,
        "discard_reasons": discarded,
        "failure_boundaries": failures,
        "model_turns": totals.turns,
        "toolsets_used": dict(sorted(totals.toolsets.items())),
        "tool_statistics": tools,
        "api_calls": status.api_calls,
        "usage": status.usage,
        "cost_usd": status.cost_usd,
        "rollout_seconds": round(status.seconds, 3),
    }


def _rates(counts: Counter[str]) -> dict[str, float | None]:
    """Return the shares of calls that succeeded and failed; None without a call."""
    if not counts["count"]:
        return {"success_rate": None, "failure_rate": None}
    success = counts["success"] / counts["count"]
    return {"success_rate": round(success, 4), "failure_rate": round(1 - success, 4)}
