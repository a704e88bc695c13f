"""Run the attacks of tests/redteam with each mechanism of the boundary and count them.

    python scripts/redteam_report.py [--quick] [MECHANISM …]

The mechanisms are `namespace`, `landlock` and `none`; with `none`, only the attacks on the fallback
are made. With `--quick`, only the families that the mechanism itself has to hold. The exit code is
1 if an attack succeeded or a test failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
ATTACKS = "tests/redteam"
FALLBACK = (f"{ATTACKS}/test_boundary.py", f"{ATTACKS}/test_tampering.py")
QUICK = tuple(
    f"{ATTACKS}/test_{family}.py" for family in ("boundary", "execute_code", "home_writes")
)
MECHANISMS = ("namespace", "landlock", "none")
CONTROLS = "test_control"  #: Tests of the harness itself, which are not attacks.


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("mechanisms", nargs="*", metavar="MECHANISM", help=", ".join(MECHANISMS))
    parser.add_argument("--quick", action="store_true", help="only families of the boundary")
    args = parser.parse_args(argv)
    if unknown := set(args.mechanisms) - set(MECHANISMS):
        parser.error(f"there is no mechanism {sorted(unknown)[0]!r}")
    files = QUICK if args.quick else (ATTACKS,)
    held = [
        report(mechanism, FALLBACK if mechanism == "none" else files)
        for mechanism in args.mechanisms or MECHANISMS
    ]
    return 0 if all(held) else 1


def report(mechanism: str, files: Sequence[str]) -> bool:
    """Run the attacks and print a line for each family. Return whether all were held."""
    # Landlock cannot allow new files in the folders above the home, so that is not below /tmp.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hermes-redteam-") as folder:
        results = Path(folder, "results.xml")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "worksteal",
             f"--basetemp={folder}/homes", f"--junitxml={results}",
             *files],
            cwd=ROOT,
            env={**os.environ, "HERMES_TEST_BOUNDARY": mechanism},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        tried, held = count(results) if results.exists() else (Counter[str](), Counter[str]())
    print(f"boundary: {mechanism}")
    for family in sorted(tried):
        print(f"  {family:<28} {tried[family]:>4} tried {held[family]:>4} held")
    print(f"  {'all':<28} {tried.total():>4} tried {held.total():>4} held")
    if done.returncode:
        print(done.stdout[-3_000:])
    return done.returncode == 0


def count(results: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how many attacks of each family were tried and held; skipped ones are not counted."""
    tried, held = Counter[str](), Counter[str]()
    for case in ET.parse(results).iter("testcase"):
        module = case.get("classname", "").rpartition(".")[2]
        outcomes = {child.tag for child in case}
        if module == CONTROLS or "skipped" in outcomes:
            continue
        family = module.removeprefix("test_").replace("_", " ")
        tried[family] += 1
        held[family] += outcomes.isdisjoint({"failure", "error"})
    return tried, held


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
