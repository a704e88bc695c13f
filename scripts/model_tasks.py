"""Let an embedded model do the sixty tasks and print how many it solves.

python -m scripts.model_tasks [--model NAME] [--half tune|report|both] [--kind KIND] [--quiet]
"""

import argparse
import asyncio
import os
import resource
import statistics
import sys
import tempfile
from pathlib import Path

from hermes.app.app import App
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.providers.local.weights import fetch_weights, resolve_weights
from tests.model.conftest import CACHE, Silent
from tests.model.tasks import Attempt, attempt, load_tasks


async def run(args: argparse.Namespace) -> list[Attempt]:
    """Return one attempt per task, all with one model process in a temporary home."""
    half = None if args.half == "both" else args.half
    tasks = [t for t in load_tasks(half=half) if args.kind in (None, t.kind)]
    weights = resolve_weights(args.model, CACHE / "models")
    file = await fetch_weights(weights, CACHE / "models", Silent())
    done = []
    with tempfile.TemporaryDirectory(prefix="model-tasks-") as name:
        home = Home(Path(name) / "home")
        home.models.mkdir(parents=True)
        (home.models / file.name).symlink_to(file)
        settings = f"local:\n  model: {args.model}\n  threads: {args.threads}\n"
        (home.root / "config.yaml").write_text(settings)
        os.environ["HERMES_HOME"] = str(home.root)
        async with App(home, load(home), Silent(), print) as app:
            for number, task in enumerate(tasks):
                done.append(await attempt(app, task, Path(name) / str(number)))
                if not args.quiet:
                    print(done[-1].row, flush=True)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.model_tasks")
    parser.add_argument("--model", default="0.5b", help="0.5b, 1.5b or the path of a GGUF file")
    parser.add_argument("--half", choices=["tune", "report", "both"], default="tune")
    parser.add_argument("--kind", choices=sorted({task.kind for task in load_tasks()}))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="print the totals only")
    args = parser.parse_args()
    done = asyncio.run(run(args))
    seconds = [one.seconds for one in done]
    for kind in dict.fromkeys(one.task.kind for one in done):
        of_kind = [one for one in done if one.task.kind == kind]
        print(f"{kind:<12} {sum(not one.problem for one in of_kind)} of {len(of_kind)}")
    solved = sum(not one.problem for one in done)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{args.model}, {args.half}: {solved} of {len(done)} tasks solved, "
        f"{statistics.mean(seconds):.1f} s per task (median {statistics.median(seconds):.1f} s, "
        f"longest {max(seconds):.1f} s), {(used.ru_utime + used.ru_stime) / len(done):.1f} s of CPU"
    )
    sys.exit(0 if solved else 1)


if __name__ == "__main__":
    main()
