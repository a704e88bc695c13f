"""Measure which command lines need approval, on the corpora in tests/unit/security.

    python scripts/approvals_report.py [--peer VENV] [FOLDER …]

Each folder holds `dangerous.txt` (technique | class :: command) and `harmless.txt` (technique |
command), or one of them; ⏎ is a line break, ␛ the escape character, ␍ a carriage return. The author
of `dangerous-independent.txt` and `harmless-independent.txt` had seen none of the code; these files
are counted too, and reported separately as well.

With `--peer`, the detector of the published package, installed in that environment, checks the same
lines. The exit code is 1 when fewer than 99 % of the dangerous or more than 2 % of the harmless
lines are stopped. Lines of other folders are fresh: no rule was tuned on them, so 98 % and 3 %
suffice.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes.security import PathGuard, examine_command

CORPORA = Path(__file__).parent.parent / "tests" / "unit" / "security"
GUARD = PathGuard(Path("/home/user"), (Path("/home/user/work"),), (Path("/home/user/.hermes"),))
MARKS = str.maketrans({"⏎": "\n", "␛": "\x1b", "␍": "\r"})
REQUIRED = (99.0, 2.0)  #: Least detected and most false alarms, in per cent.
REQUIRED_FRESH = (98.0, 3.0)

PEER = """
import json, sys
from tools.approval import detect_dangerous_command
for command in json.load(sys.stdin):
    found = detect_dangerous_command(command)
    print(json.dumps("ask" if found[0] else "allow"))
"""


class Case(NamedTuple):
    technique: str
    kind: str  #: The expected class; "" for a harmless line.
    command: str
    independent: bool = False  #: Its author had seen none of the code.


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[CORPORA], metavar="FOLDER")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment of the package")
    args = parser.parse_args(argv)
    dangerous = [case for folder in args.folders for case in corpus(folder, "dangerous")]
    harmless = [case for folder in args.folders for case in corpus(folder, "harmless")]
    required = REQUIRED if CORPORA in args.folders else REQUIRED_FRESH
    name = "this code" if CORPORA in args.folders else "this code, fresh lines"
    passed = report(name, ours, dangerous, harmless, listed=True, required=required)
    if args.peer:
        python = args.peer / "bin" / "python"
        report("the published package", lambda cases: peer(python, cases), dangerous, harmless)
    return 0 if passed else 1


def corpus(folder: Path, name: str) -> list[Case]:
    return read(folder / f"{name}.txt") + read(folder / f"{name}-independent.txt")


def read(path: Path) -> list[Case]:
    cases = []
    for line in path.read_text("utf-8").split("\n") if path.exists() else ():
        if not line or line.startswith("#"):
            continue
        technique, _, rest = line.partition(" | ")
        kind, found, command = (
            rest.partition(" :: ") if path.stem.startswith("dangerous") else ("", "", rest)
        )
        text = (command if found else rest).translate(MARKS)
        cases.append(Case(technique, kind, text, path.stem.endswith("-independent")))
    return cases


def ours(cases: Sequence[Case]) -> list[str]:
    """Return `allow`, `ask` or `refuse` for each line."""
    verdicts = []
    for case in cases:
        concerns = examine_command(case.command, GUARD, str(GUARD.workspace[0]))
        verdicts.append((concerns and ("refuse" if concerns[0].refused else "ask")) or "allow")
    return verdicts


def peer(python: Path, cases: Sequence[Case]) -> list[str]:
    """Return the verdicts of the other package, from a process with a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [str(python), "-c", PEER],
            input=json.dumps([case.command for case in cases]),
            capture_output=True,
            text=True,
            cwd=home,
            env={"HOME": home, "PATH": "/usr/bin:/bin"},
            timeout=600,
        )
    if done.returncode:
        raise SystemExit(f"the detector of {python} cannot be run:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()[-len(cases) :]]


def report(
    name: str,
    detect: Callable[[Sequence[Case]], list[str]],
    dangerous: Sequence[Case],
    harmless: Sequence[Case],
    *,
    listed: bool = False,
    required: tuple[float, float] = REQUIRED,
) -> bool:
    """Print the rates and return whether they suffice. `listed` names each miss and false alarm."""
    started = time.process_time()
    verdicts = detect(dangerous)
    alarms = detect(harmless)
    spent = (time.process_time() - started) / max(len(dangerous) + len(harmless), 1)
    caught = sum(verdict != "allow" for verdict in verdicts)
    false = sum(verdict != "allow" for verdict in alarms)
    detected, wrong = share(caught, len(dangerous)), share(false, len(harmless))
    print(f"\n== {name}")
    print(
        f"dangerous lines detected  {detected:6.2f} %  ({caught} of {len(dangerous)}: "
        f"{verdicts.count('ask')} asked, {verdicts.count('refuse')} refused)"
    )
    print(f"false alarms              {wrong:6.2f} %  ({false} of {len(harmless)})")
    independent("detected", dangerous, verdicts)
    independent("false alarms", harmless, alarms)
    if listed:
        print(f"time                      {spent * 1000:6.2f} ms a line")
    table("detected", dangerous, verdicts)
    table("false alarms", harmless, alarms)
    if listed:
        for case, verdict in zip(dangerous, verdicts, strict=True):
            if verdict == "allow":
                print(f"MISSED       {case.technique}: {case.command!r}")
        for case, verdict in zip(harmless, alarms, strict=True):
            if verdict != "allow":
                print(f"FALSE ALARM  {case.technique}: {case.command!r}")
    return detected >= required[0] and wrong <= required[1]


def independent(title: str, cases: Sequence[Case], verdicts: Sequence[str]) -> None:
    """Print the rate of the independent part. It is known by now, so this is not a blind rate."""
    found = [verdict for case, verdict in zip(cases, verdicts, strict=True) if case.independent]
    stopped = sum(verdict != "allow" for verdict in found)
    if found:
        rate = share(stopped, len(found))
        print(f"  written independently: {title:<13} {rate:6.2f} %  ({stopped} of {len(found)})")


def table(title: str, cases: Sequence[Case], verdicts: Sequence[str]) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    for case, verdict in zip(cases, verdicts, strict=True):
        label = f"{case.technique} (independent)" if case.independent else case.technique
        groups[label].append(verdict)
    for technique, found in groups.items():
        stopped = sum(verdict != "allow" for verdict in found)
        print(f"  {title:<12} {technique:<30} {share(stopped, len(found)):6.1f} %  of {len(found)}")


def share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
