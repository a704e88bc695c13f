"""Keep a list of tasks in one text file in the todo.txt format.

One line is a task: `(A) 2024-05-01 Call Ann +house @phone due:2024-05-03`; done: `x 2024-05-02 …`.
Words with + are projects, with @ contexts; due: is the last day, t: hides it until that day, rec:
repeats it (1d, 2w, 1m, 1y after it is done; +1w counts from the due day).

  todo.py todo.txt add "(B) Pay rent +house due:2024-06-01 rec:+1m"
  todo.py todo.txt list +house          todo.py todo.txt agenda --days 7
  todo.py todo.txt done 3               todo.py todo.txt set 3 due:2024-05-10
Exit code: 0 done, 1 nothing to show, 2 an error.
"""
# ruff: noqa: T201, DTZ011 - prints its answer; due days are those of the user

from __future__ import annotations

import argparse
import calendar
import os
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

LINE = re.compile(r"(?:(x) )?(?:\(([A-Z])\) )?((?:\d{4}-\d\d-\d\d ){0,2})(.*)")
KEY = re.compile(r"(?:^|\s)(due|t|rec|pri):(\S+)")
REPEAT = re.compile(r"(\+?)(\d+)([dwmy])")
DAYS = {"d": 1, "w": 7}


class Problem(Exception):
    """Something the user has to correct."""


@dataclass
class Task:
    number: int
    line: str

    def __post_init__(self) -> None:
        found = LINE.fullmatch(self.line)
        assert found
        self.done = bool(found[1])
        self.text = found[4]
        self.keys = dict(KEY.findall(found[4]))
        self.priority = found[2] or self.keys.get("pri", "")

    @property
    def due(self) -> date | None:
        return self.day_of("due")

    def day_of(self, key: str) -> date | None:
        """None also for what is no day: the file may be written by hand."""
        try:
            return date.fromisoformat(self.keys.get(key, ""))
        except ValueError:
            return None

    def open_on(self, today: date) -> bool:
        return not self.done and (self.day_of("t") or today) <= today

    def order(self) -> tuple[str, date, int]:
        return self.priority or "[", self.due or date.max, self.number

    def has(self, words: list[str]) -> bool:
        low = self.line.lower().split()
        return all(
            word.lower() in low if word[:1] in "+@" else word.lower() in self.line.lower()
            for word in words
        )


def day(text: str, today: date) -> date:
    named = {"today": today, "tomorrow": today + timedelta(days=1)}
    try:
        return named.get(text) or date.fromisoformat(text)
    except ValueError:
        raise Problem(f"{text!r} is no day such as 2024-05-31, today or tomorrow") from None


def later(start: date, number: int, unit: str) -> date:
    if unit in DAYS:
        return start + timedelta(days=number * DAYS[unit])
    months = start.month - 1 + number * (12 if unit == "y" else 1)
    year, month = start.year + months // 12, months % 12 + 1
    if year > date.max.year:
        raise OverflowError
    return date(year, month, min(start.day, calendar.monthrange(year, month)[1]))


def checked(text: str, today: date) -> str:
    """The text of a task with real dates; raises `Problem` for wrong ones."""
    line = " ".join(text.split())
    if not line:
        raise Problem("a task needs words")
    for key, value in KEY.findall(line):
        if key in ("due", "t"):
            line = line.replace(f"{key}:{value}", f"{key}:{day(value, today)}")
        elif key == "rec" and not REPEAT.fullmatch(value):
            raise Problem(f"rec:{value} is not understood; write rec:1d, rec:2w, rec:+1m or rec:1y")
    return line


def repeated(task: Task, today: date) -> str:
    """The next task of one that repeats; "" for others."""
    found = REPEAT.fullmatch(task.keys.get("rec", ""))
    if not found:
        return ""
    number, unit = int(found[2]), found[3]
    base = task.due or today
    following = later(base if found[1] else today, number, unit)
    text = task.text
    hidden = task.day_of("t")
    if hidden:
        text = text.replace(f"t:{hidden}", f"t:{following - (base - hidden)}")
    text = re.sub(r"\s*\bdue:\S+", "", text) + f" due:{following}"
    return (f"({task.priority}) " if task.priority else "") + f"{today} {text.strip()}"


def shown(task: Task, today: date) -> str:
    late = ""
    if task.due and not task.done:
        gap = (task.due - today).days
        late = f"  [{-gap} days late]" if gap < 0 else "  [today]" if gap == 0 else ""
    elif "due" in task.keys and not task.done:
        late = "  [due: no such day]"
    return f"{task.number:3} {task.line}{late}"


class List:
    """The file, line by line; its line ends stay what they are."""

    def __init__(self, file: Path) -> None:
        self.file = file.resolve()  # a link stays a link
        if self.file.exists() and not self.file.is_file():
            raise Problem(f"{file} is no file")
        try:
            text = self.file.read_bytes().decode("utf-8") if file.exists() else ""
        except UnicodeDecodeError:
            raise Problem(f"{file} is no UTF-8 text") from None
        self.end = "\r\n" if "\r\n" in text else "\n"
        self.lines = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")] if text else []

    @property
    def tasks(self) -> list[Task]:
        return [Task(n, line) for n, line in enumerate(self.lines, 1) if line.strip()]

    def get(self, number: int) -> Task:
        task = next((each for each in self.tasks if each.number == number), None)
        if not task:
            raise Problem(f"there is no task {number}; look with: list")
        return task

    def save(self) -> None:
        temporary = self.file.with_name(self.file.name + ".new")
        temporary.write_bytes("".join(f"{line}{self.end}" for line in self.lines).encode())
        if self.file.exists():
            shutil.copymode(self.file, temporary)
        os.replace(temporary, self.file)  # noqa: PTH105 - replaces on every system


def add(tasks: List, options: argparse.Namespace) -> int:
    found = LINE.fullmatch(checked(options.text, options.today))
    assert found
    priority = f"({found[2]}) " if found[2] else ""
    tasks.lines.append(f"{priority}{found[3] or f'{options.today} '}{found[4]}")
    tasks.save()
    print(shown(tasks.tasks[-1], options.today))
    return 0


def listed(tasks: List, options: argparse.Namespace) -> int:
    chosen = [
        task
        for task in tasks.tasks
        if task.has(options.words) and (options.all or task.open_on(options.today))
    ]
    for task in sorted(chosen, key=Task.order):
        print(shown(task, options.today))
    return 0 if chosen else 1


def agenda(tasks: List, options: argparse.Namespace) -> int:
    last = options.today + timedelta(days=options.days)
    open_tasks = [task for task in tasks.tasks if task.open_on(options.today)]
    groups = {
        "late": [t for t in open_tasks if t.due and t.due < options.today],
        "today": [t for t in open_tasks if t.due == options.today],
        f"until {last}": [t for t in open_tasks if t.due and options.today < t.due <= last],
        "important, without a day": [t for t in open_tasks if not t.due and t.priority == "A"],
    }
    for name, members in groups.items():
        if members:
            print(f"{name}:")
        for task in sorted(members, key=lambda t: (t.due or date.max, *t.order())):
            print(shown(task, options.today))
    return 0 if any(groups.values()) else 1


def done(tasks: List, options: argparse.Namespace) -> int:
    chosen = [tasks.get(number) for number in sorted(set(options.numbers))]
    for task in chosen:
        if task.done:
            raise Problem(f"task {task.number} is done already")
    for task in chosen:
        following = repeated(task, options.today)
        kept = re.sub(r"^\([A-Z]\) ", "", task.line)
        mark = f" pri:{task.priority}" if task.priority and "pri" not in task.keys else ""
        tasks.lines[task.number - 1] = f"x {options.today} {kept}{mark}"
        print(shown(tasks.get(task.number), options.today))
        if following:
            tasks.lines.append(following)
            print(shown(tasks.tasks[-1], options.today))
    tasks.save()
    return 0


def change(tasks: List, options: argparse.Namespace) -> int:
    line = tasks.get(options.number).line
    for value in options.values:
        key = re.fullmatch(r"(due|t|rec):(.*)", value)
        rank = re.fullmatch(r"\(([A-Z]?)\)", value)
        if key:
            line = re.sub(rf"\s*(?<!\S){key[1]}:\S+", "", line)
            line += f" {checked(value, options.today)}" if key[2] else ""
        elif rank:
            line = (f"{value} " if rank[1] else "") + re.sub(r"^\([A-Z]\) ", "", line)
        elif re.fullmatch(r"[+@]\S+", value):
            line += f" {value}"
        else:
            raise Problem(f"{value!r}: give due:DAY, t:DAY, rec:1w, (A), (), +project or @context")
    tasks.lines[options.number - 1] = line
    tasks.save()
    print(shown(tasks.get(options.number), options.today))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the list, such as ~/todo.txt")
    parser.add_argument("--today", default="today", help="count from this day, YYYY-MM-DD")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        return made

    action("add", add, "a new task").add_argument("text")
    it = action("list", listed, "open tasks with all these words")
    it.add_argument("words", nargs="*")
    it.add_argument("--all", action="store_true", help="also done and hidden ones")
    it = action("agenda", agenda, "late, today, and the next days")
    it.add_argument("--days", type=int, default=7)
    action("done", done, "tasks that are done").add_argument("numbers", nargs="+", type=int)
    it = action("set", change, "change day, priority, project")
    it.add_argument("number", type=int)
    it.add_argument("values", nargs="+")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        options.today = day(options.today, date.today())
        return int(options.run(List(options.file.expanduser()), options))
    except BrokenPipeError:
        raise
    except OverflowError:
        print("error: that day is beyond the year 9999", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
