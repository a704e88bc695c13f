"""A program with the documented commands of `yc-bench` and their JSON answers, over SQLite.

The simulation has one event a month, which pays salaries. A dispatched task brings money at the
next event. It is not the economy of YC-Bench; it has its command line, variables and formats.
"""

import argparse
import json
import os
import sqlite3
import sys
from datetime import UTC, datetime
from typing import Any

START_FUNDS = {"fast_test": 25_000_000, "hard": 10_000_000}
SALARIES, REWARD = 1_500_000, 9_000_000


def main() -> int:
    parser = argparse.ArgumentParser("yc-bench")
    parser.add_argument("group", choices=("sim", "company", "market", "task"))
    parser.add_argument("action")
    for name in ("--seed", "--horizon-years"):
        parser.add_argument(name, type=int, default=1)
    for name in ("--start-date", "--company-name", "--task-id", "--employee-id"):
        parser.add_argument(name, default="")
    args = parser.parse_args()
    url = os.environ["DATABASE_URL"]
    assert url.startswith("sqlite:////"), url
    with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
        db.execute("CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT)")
        state = {key: json.loads(value) for key, value in db.execute("SELECT * FROM state")}
        code, answer = answer_to(args, state)
        rows = [(key, json.dumps(value)) for key, value in state.items()]
        db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    return code


def answer_to(args: argparse.Namespace, state: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    command = f"{args.group} {args.action}"
    if command == "sim init":
        if state:
            return 1, {"error": "A simulation already exists."}
        start = datetime.strptime(args.start_date, "%m/%d/%Y").replace(hour=9, tzinfo=UTC)
        state |= {
            "funds_cents": START_FUNDS[os.environ["YC_BENCH_EXPERIMENT"]],
            "sim_time": start.isoformat(),
            "horizon_end": start.replace(year=start.year + args.horizon_years).isoformat(),
            "seed": args.seed,
            "active": 0,
        }
        return 0, {"sim_time": state["sim_time"], "seed": args.seed}
    if not state:
        return 1, {"error": "No simulation found. Run `yc-bench sim init` first."}
    if command == "company status":
        risk = {"bankrupt": state["funds_cents"] < 0}
        return 0, {"company_name": "BenchCo", **state, "prestige": {"research": 1.0}, "risk": risk}
    if command == "task dispatch":
        state["active"] += 1
        return 0, {"task_id": args.task_id, "status": "active"}
    if command == "sim resume":
        state["funds_cents"] += state["active"] * REWARD - SALARIES
        state["active"] = 0
        now = datetime.fromisoformat(state["sim_time"])
        month = now.year * 12 + now.month
        state["sim_time"] = now.replace(year=month // 12, month=month % 12 + 1).isoformat()
        ended = state["sim_time"] >= state["horizon_end"]
        reason = "bankruptcy" if state["funds_cents"] < 0 else "horizon_end" if ended else None
        return 0, {"ok": True, "new_sim_time": state["sim_time"], "terminal_reason": reason}
    return 2, {"error": f"No such command '{command}'."}


if __name__ == "__main__":
    raise SystemExit(main())
