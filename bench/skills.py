"""Measure what the list of skills in the prompt costs with a large collection.

    python -m bench.skills [--skills 500] [--runs 10] [--json FILE]

Each figure is CPU milliseconds from a collection on disk to the finished text: find the skills,
remove hidden ones, rank them by use and by the current work. *Cold*: every file is read. *New
process*: the cache of the last process is valid. *Same process*: the list is built a second time.
*One changed*: one SKILL.md was edited since. Modules that every start needs are already loaded. The
result is the minimum over several runs, because other load on the machine can only increase a
figure.

The exit code is 1 if a target is missed.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from hermes.skills import (
    SkillIndex,
    SkillRoot,
    SkillsPrompt,
    SkillUsage,
    Source,
    UsageRecord,
    VisibilityContext,
)

ROOT = Path(__file__).parents[1]
BUDGET = 3000
"""`skills.index_chars`."""
CATEGORIES = 20
USED = 60
NOW = 1_800_000_000.0
HINTS = (
    "README.md", "pyproject.toml", "Dockerfile", "notebook.ipynb", "report.pdf", "src", "tests",
    "docs", "compose.yaml", "Makefile", "data.csv", ".github", "invoices", "letters.docx",
)  # fmt: skip

CONTEXT = VisibilityContext(
    system="linux",
    tools=frozenset({"terminal", "read_file", "web_search", "skill_view"}),
    toolsets=frozenset({"terminal", "file", "web", "skills"}),
    disabled=frozenset({"skill-7", "skill-99"}),
)
WORDS = (
    "python docker github notebook spreadsheet report letter database invoice container pdf excel"
    " search read write convert review merge plan deploy measure draw summarise translate document"
    " picture table mail calendar server branch paper citation recipe when the user asks for with"
    " and into from a of every new or broken one"
)
SYLLABLES = [
    "ba",
    "co",
    "di",
    "fer",
    "ga",
    "lin",
    "mo",
    "nar",
    "pe",
    "ri",
    "so",
    "tun",
    "ver",
    "xi",
]

Figures = dict[str, float]
TARGETS: Figures = {"cold": 150.0, "new process": 3.0, "same process": 3.0, "characters": BUDGET}


def make(home: Path, count: int) -> None:
    """Write `count` skills shaped like real ones, the same on each run; some have conditions."""
    chance = random.Random(7)
    made = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(600)]
    words = [*WORDS.split(), *made]
    for number in range(count):
        text = " ".join(chance.choices(words, k=chance.randint(8, 30))).capitalize()
        tags = ", ".join(chance.sample(words, 3))
        lines = [
            f"name: skill-{number}",
            f"description: {text}",
            f"version: 1.{number % 9}.0",
            "author: Alice",
            "license: MIT",
            *(["platforms: [linux, macos]"] if number % 10 == 0 else []),
            "metadata:",
            "  hermes:",
            f"    tags: [{tags}]",
            f"    related_skills: [skill-{number + 1}]",
            *(["    requires_toolsets: [terminal]"] if number % 6 == 0 else []),
            *(["    fallback_for_tools: [browser_click]"] if number % 15 == 0 else []),
        ]
        if number % 12 == 0:
            lines += [
                "required_environment_variables:",
                f"  - name: SERVICE_{number}_KEY",
                "    prompt: The key of the service",
                "    help: It is on the page of your account",
            ]
        body = "".join(f"{step}. {' '.join(chance.choices(words, k=12))}\n" for step in range(60))
        folder = home / "skills" / f"category-{number % CATEGORIES:02}" / f"skill-{number}"
        folder.mkdir(parents=True)
        head = "\n".join(lines)
        (folder / "SKILL.md").write_text(f"---\n{head}\n---\n# Skill {number}\n\n{body}")
    for number in range(CATEGORIES):
        file = home / "skills" / f"category-{number:02}" / "DESCRIPTION.md"
        file.write_text(f"All that belongs to the field {number}\n")
    used = {
        f"skill-{chance.randrange(count)}": UsageRecord(chance.randint(1, 40), NOW - 3600 * number)
        for number in range(USED)
    }
    (home / "skills" / ".usage.json").write_text(
        json.dumps({name: {"count": use.count, "last": use.last} for name, use in used.items()})
    )


def worker(home: Path) -> None:
    """Measure in one process the first list and the same list again."""
    skills = SkillIndex([SkillRoot(home / "skills", Source.USER)], home / "cache" / "skills.json")
    usage = SkillUsage(home / "skills" / ".usage.json")
    prompt = SkillsPrompt(skills, usage, home / "cache" / "skills-prompt.json")
    marks, text = [time.process_time_ns()], ""
    for _ in range(3):
        text = prompt.text(CONTEXT, BUDGET, NOW, HINTS)
        marks.append(time.process_time_ns())
    first, *again = [(after - before) / 1e6 for before, after in pairwise(marks)]
    found = len(skills.skills())
    print(json.dumps({"first": first, "again": min(again), "chars": len(text), "found": found}))


def process(home: Path) -> Figures:
    command = [sys.executable, "-m", "bench.skills", "--worker", str(home)]
    # PYTHON* variables, such as one that turns bytecode off, would change the figures.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env = {**kept, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    answer = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    figures: Figures = json.loads(answer.stdout)
    return figures


def one_run(home: Path, count: int) -> Figures:
    shutil.rmtree(home / "cache", ignore_errors=True)
    cold = process(home)
    warm = process(home)
    changed = home / "skills" / "category-03" / "skill-3" / "SKILL.md"
    changed.write_text(changed.read_text() + "One more line.\n")
    if not cold["found"] == warm["found"] == count:
        raise SystemExit(f"{cold['found']:.0f} of {count} skills were found")
    return {
        "cold": cold["first"],
        "new process": warm["first"],
        "same process": warm["again"],
        "one changed": process(home)["first"],
        "characters": warm["chars"],
    }


def show(figures: Figures) -> list[str]:
    """Print the table and return the targets that were missed."""
    print(f"{'CPU ms':<16} {'hermes':>10} {'target':>8}")
    missed = []
    for name, value in figures.items():
        target = f"{TARGETS[name]:>8.0f}" if name in TARGETS else f"{'-':>8}"
        print(f"{name:<16} {value:>10.2f} {target}")
        if value > TARGETS.get(name, value):
            missed.append(name)
    for name in missed:
        print(f"missed: {name}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the list of skills in the prompt")
    parser.add_argument("--skills", type=int, default=500, help="number of skills")
    parser.add_argument("--runs", type=int, default=10, help="the minimum of each figure counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        make(home, args.skills)
        runs = [one_run(home, args.skills) for _ in range(args.runs)]
    figures = {name: min(run[name] for run in runs) for name in runs[0]}
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(1 if show(figures) else 0)


if __name__ == "__main__":
    main()
