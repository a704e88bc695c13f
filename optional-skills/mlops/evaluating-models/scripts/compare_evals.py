"""Compare two evaluations by lm-eval: is the difference larger than chance?

  compare_evals.py base/results.json new/results.json
  compare_evals.py base/ new/ --samples base/samples_x.jsonl new/samples_x.jsonl --metric acc

The first form uses the standard errors in the results. The second compares example by example (sign
test), which finds smaller differences; run lm-eval with --log_samples for it.
Exit code: 0 nothing got clearly worse, 1 something did, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

LOWER_IS_BETTER = ("perplexity", "bits_per_byte", "wer", "ter", "mse", "brier_score")
CLEAR = 1.96
"""Standard errors: 95 percent."""


class Problem(Exception):
    """Something the user has to correct."""


def load(file: Path) -> dict[str, Any]:
    if file.is_dir():
        found = sorted(file.rglob("results*.json"))
        if not found:
            raise Problem(f"there is no results*.json in {file}")
        file = found[-1]
    try:
        data = json.loads(file.read_text("utf-8"))
    except ValueError:
        raise Problem(f"{file} is no JSON") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise Problem(f"{file} holds no results of lm-eval")
    return data


def scores(data: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float | None]]:
    """Value and standard error by task and metric."""
    out = {}
    for task, values in data["results"].items():
        for key, value in values.items():
            name, _, rest = key.partition(",")
            if isinstance(value, (int, float)) and not name.endswith("_stderr") and rest:
                error = values.get(f"{name}_stderr,{rest}")
                good = isinstance(error, (int, float)) and not math.isnan(error)
                out[task, f"{name},{rest}"] = (float(value), float(error) if good else None)
    return out


def facts(data: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a fair comparison."""
    config = data.get("config") or {}
    out = {"limit": config.get("limit"), "seed": config.get("random_seed")}
    out.update({f"few-shot of {k}": v for k, v in (data.get("n-shot") or {}).items()})
    out.update({f"version of {k}": v for k, v in (data.get("versions") or {}).items()})
    samples = (data.get("n-samples") or {}).items()
    out.update({f"examples of {k}": (v or {}).get("effective") for k, v in samples})
    return out


def compare(base: dict[str, Any], new: dict[str, Any]) -> int:
    first, second = facts(base), facts(new)
    for name in sorted(set(first) & set(second)):
        if first[name] != second[name]:
            print(f"!! not comparable: {name} is {first[name]} and {second[name]}")
    old, fresh = scores(base), scores(new)
    worse = 0
    for task, metric in sorted(set(old) & set(fresh)):
        (a, ea), (b, eb) = old[task, metric], fresh[task, metric]
        gain = (a - b) if metric.partition(",")[0] in LOWER_IS_BETTER else (b - a)
        if ea is None or eb is None:
            words = "no standard error"
        elif not (ea or eb):
            words = "equal" if a == b else "no spread given"
        else:
            distance = gain / math.hypot(ea, eb)
            words = (
                "within chance" if abs(distance) < CLEAR else ("better" if gain > 0 else "WORSE")
            )
            words += f" ({distance:+.1f} standard errors)"
            worse += words.startswith("WORSE")
        print(f"{task} {metric}: {a:.4f} -> {b:.4f}  {words}")
    if not set(old) & set(fresh):
        raise Problem("the two have no task in common")
    return worse


def samples(file: Path, metric: str) -> dict[str, float]:
    out = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            key = f"{row['doc_id']} {row.get('filter', '')}"
            out[key] = float(row[metric])
        except (ValueError, TypeError):
            raise Problem(f"{file} line {number} is no sample") from None
        except KeyError as error:
            raise Problem(f"{file} line {number} has no {error}") from None
    return out


def paired(options: argparse.Namespace) -> int:
    a, b = (samples(file, options.metric) for file in options.samples)
    common = sorted(set(a) & set(b))
    if not common:
        raise Problem("the two files have no example in common")
    up = sum(b[key] > a[key] for key in common)
    down = sum(b[key] < a[key] for key in common)
    changed = up + down
    # Two-sided sign test: how often would a fair coin be at least as uneven?
    tail = sum(math.comb(changed, k) for k in range(min(up, down) + 1)) / 2**changed
    chance = min(1.0, 2 * tail)
    words = "within chance" if chance >= 0.05 else ("better" if up > down else "WORSE")
    print(f"{len(common)} examples: {up} better, {down} worse, p = {chance:.3g}: {words}")
    return int(words == "WORSE")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", type=Path, help="results of lm-eval, a file or its folder")
    parser.add_argument("new", type=Path)
    parser.add_argument("--samples", nargs=2, type=Path, metavar=("BASE", "NEW"))
    parser.add_argument("--metric", default="acc", help="of the samples (acc)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        worse = compare(load(options.base), load(options.new))
        if options.samples:
            worse += paired(options)
    except UnicodeError:
        print("error: a file is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1 if worse else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
