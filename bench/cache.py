"""Measure what a long session costs when the provider caches prompts.

    python -m bench.cache [--peer VENV] [--turns 60] [--context 64000] [--json FILE]

Each contender runs the same session of many turns with tool calls and compactions against a model
server with a simulated prefix cache: a Claude model on the Anthropic wire with cache marks, and a
model on chat completions that caches automatically. Prices are the published ones.
The peer needs the package `anthropic` in its environment. Exit code 1 when a target is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.cache_script import CALLS, FILE, LINES, Session, notes
from bench.cache_worker import KEY
from bench.contenders import ROOT, Contender, ours, peer
from hermes.core.model import Price
from hermes.core.testing import ModelServer, SessionReport
from hermes.providers.catalog import bundled_tables

LEAST_READ = 0.90
"""Least share of the prompt tokens that must come from the cache."""
MOST_COST = 0.5
"""Most that our session may cost, as a share of the peer's cost."""


class Row(msgspec.Struct, frozen=True):
    """A model and the wire on which it is called."""

    name: str
    provider: str
    model: str
    path: str

    @property
    def price(self) -> Price:
        entry = next(entry for entry in bundled_tables().models if entry.name == self.model)
        if entry.price is None:
            raise SystemExit(f"the price of {self.model} is not known")
        # Only the sum of all prompts is long, and the price for long prompts must not apply to it.
        return msgspec.structs.replace(entry.price, long=None)


ROWS = (
    Row("marked", "anthropic", "claude-sonnet-4-6", ""),
    Row("automatic", "custom", "gpt-5.4", "/v1"),
)


def settings(row: Row, url: str, context: int) -> str:
    model = {
        "default": row.model,
        "provider": row.provider,
        "base_url": url,
        "api_key": KEY,
        "context_length": context,
    }
    return json.dumps({"model": model}, indent=2)  # JSON is YAML


def session(contender: Contender, python: str, row: Row, turns: int, context: int) -> "Outcome":
    script = Session()
    with tempfile.TemporaryDirectory() as name, ModelServer(script.answer) as server:
        home, work = Path(name) / "home", Path(name) / "work"
        (home / ".hermes").mkdir(parents=True)
        work.mkdir()
        (work / FILE).write_text(notes((turns + 1) * CALLS * LINES * 2))
        url = server.url + row.path
        (home / ".hermes" / "config.yaml").write_text(settings(row, url, context))
        worker = str(ROOT / "bench" / "cache_worker.py")
        # -P: the peer has modules with the same names as ours.
        done = subprocess.run(
            [python, "-P", worker, contender.name, row.provider, row.model, url, str(turns)],
            cwd=work,
            env=contender.environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        report = server.session_report(row.price)
    if done.returncode:
        raise SystemExit(f"{contender.name} failed:\n{done.stdout[-2000:]}")
    return Outcome.of(report, script)


class Outcome(msgspec.Struct, frozen=True):
    calls: int
    other_calls: int
    """The calls that were neither a step of a turn nor a summary."""
    compactions: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    read_share: float
    cost: float

    @classmethod
    def of(cls, report: SessionReport, script: Session) -> "Outcome":
        usage = report.usage
        return cls(
            calls=report.calls,
            other_calls=script.other_calls,
            compactions=script.compactions,
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
            read_share=report.read_share,
            cost=report.cost,
        )


def show(row: Row, outcomes: dict[str, Outcome]) -> list[str]:
    """Print the figures of a row and return the targets that were missed."""
    mine, *others = outcomes.values()
    most = others[0].cost * MOST_COST if others else None
    targets = {"read_share": f">= {LEAST_READ:.0%}", "cost": f"<= {most:.4f}" if most else ""}
    head = "".join(f"{name:>14}" for name in outcomes)
    print(f"\n{row.name}: {row.model} at {row.price}\n{'figure':<12}{head} {'target':>12}")
    for figure in Outcome.__struct_fields__:
        values = [getattr(outcome, figure) for outcome in outcomes.values()]
        form = {"read_share": "14.1%", "cost": "14.4f"}.get(figure, "14,")
        cells = "".join(format(value, form) for value in values)
        print(f"{figure:<12}{cells} {targets.get(figure, ''):>12}".rstrip())
    missed = [] if mine.read_share >= LEAST_READ else [f"{row.name}: read_share"]
    return [*missed, f"{row.name}: cost"] if most is not None and mine.cost > most else missed


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what a cached session costs")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--turns", type=int, default=60, help="number of user messages")
    parser.add_argument("--context", type=int, default=64_000, help="context length of ours")
    parser.add_argument("--peer-context", type=int, help="context length of the peer, if different")
    parser.add_argument("--only", choices=[row.name for row in ROWS], help="only this model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    contenders = [(ours(), sys.executable, args.context)]
    if args.peer:
        python = str(args.peer / "bin" / "python")
        contenders.append((peer(args.peer), python, args.peer_context or args.context))
    table: dict[str, dict[str, Outcome]] = {}
    missed: list[str] = []
    for row in ROWS:
        if args.only not in (None, row.name):
            continue
        table[row.name] = {
            contender.name: session(contender, python, row, args.turns, context)
            for contender, python, context in contenders
        }
        missed += show(row, table[row.name])
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(table)) + b"\n")
    for name in missed:
        print(f"missed: {name}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
