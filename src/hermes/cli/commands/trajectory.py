"""`hermes trajectory`: show trajectory files, and convert them and sessions."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hermes import ops
from hermes.app import opened_store, store_exists
from hermes.cli.context import Cli, Command, arg, flag
from hermes.core.errors import SessionNotFound, UsageError
from hermes.store import to_sharegpt
from hermes.tui import Paint, one_line
from hermes.util.text import clean, cut_middle, escaped_json, human_size, many, plain, plain_line

FORMS = {"sharegpt": ops.as_sharegpt, "openai": ops.as_openai}
SHOWN_RESULT = 2000  #: The most characters shown of a tool result.
SHOWN_WORDS = 60
BAD_LINES = 1  #: The exit code if some lines are invalid.

COMMAND = Command("trajectory")


@COMMAND.action(
    "show",
    "show a trajectory file",
    arg("file", type=Path, metavar="FILE"),
    arg("--index", type=int, metavar="N", help="one entry, by its line; -1 is the last"),
    json=True,
)
def _show(args: Namespace, cli: Cli) -> int:
    lines = list(ops.read_lines(args.file))
    if args.index is not None:
        _show_one(_select_line(lines, args.index, args.file), cli)
        return 0
    rows = [_clean(_summary(line)) for line in lines]
    cli.emit(rows, line=_row, empty=f"there is nothing in {args.file}")
    return BAD_LINES if any(line.problem for line in lines) else 0


def _select_line(lines: list[ops.TrajectoryLine], index: int, file: Path) -> ops.TrajectoryLine:
    wanted = lines[index].number if -len(lines) <= index < 0 else index
    found = [line for line in lines if line.number == wanted]
    if not found:
        raise UsageError(
            f"{file} has no entry {index}", hint="without --index all entries are listed"
        )
    return found[0]


def _summary(line: ops.TrajectoryLine) -> dict[str, Any]:
    if line.problem:
        return {"index": line.number, "problem": line.problem}
    turns = line.entry.get("conversations") or line.entry["messages"]
    asked = (t for t in turns if (t.get("from") or t.get("role")) in ("human", "user"))
    said = (turn.get("value", turn.get("content")) for turn in asked)
    return {
        "index": line.number,
        "model": str(line.entry.get("model") or ""),
        "completed": line.entry.get("completed"),
        "turns": len(turns),
        "bytes": line.size,
        "timestamp": str(line.entry.get("timestamp") or ""),
        "begins": one_line(plain_line(str(next(said, "") or "")), SHOWN_WORDS),
    }


def _row(summary: dict[str, Any]) -> str:
    if "problem" in summary:
        return f"{summary['index']:>4}  {plain_line(summary['problem'])}"
    state = {True: "completed", False: "failed"}.get(summary["completed"], "")
    facts = f"{many(summary['turns'], 'turn'):>9}  {human_size(summary['bytes']):>8}"
    model = plain_line(summary["model"])
    return f"{summary['index']:>4}  {state:<9}  {facts}  {model}  {summary['begins']}".rstrip()


def _show_one(line: ops.TrajectoryLine, cli: Cli) -> None:
    if line.problem:
        raise UsageError(f"line {line.number}: {line.problem}")
    if cli.as_json:
        cli.json(_clean(line.entry))
        return
    summary, paint = _summary(line), cli.paint
    state = {True: "completed", False: "failed"}.get(summary["completed"], "")
    facts = (summary["model"], state, summary["timestamp"], many(summary["turns"], "turn"))
    cli.say("  ".join(plain_line(fact) for fact in facts if fact))
    entry = ops.as_openai(line.entry)
    if tools := entry.get("tools"):
        names = ", ".join(plain_line(tool["function"]["name"]) for tool in tools)
        cli.say(f"\ntools: {names}")
    for message in entry["messages"]:
        cli.say("\n" + "\n".join(_paragraphs(message, paint)))


def _paragraphs(message: dict[str, Any], paint: Paint) -> Iterator[str]:
    role, content = message["role"], message.get("content") or ""
    text = plain(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    if role == "tool":
        name = plain_line(str(message.get("name") or ""))
        yield f"{paint('accent', f'[result of {name}]')}\n{cut_middle(text, SHOWN_RESULT)}"
        return
    calls = message.get("tool_calls") or []
    if reasoning := message.get("reasoning") or message.get("reasoning_content"):
        yield paint("dim", f"[thought] {plain(reasoning)}")
    if text or not calls:
        yield f"{paint('strong', role)}: {text}"
    for call in calls:
        function = call["function"]
        start = paint("accent", f"[call of {plain_line(function['name'])}]")
        yield f"{start} {plain(str(function.get('arguments') or ''))}"


@COMMAND.action(
    "convert",
    "convert trajectories to another format",
    arg("source", metavar="SOURCE", help="a trajectory file, or a session's id or title"),
    arg("-o", "--out", metavar="OUT", help="the file to write (standard output)"),
    arg("--to", choices=FORMS, default="sharegpt", help="sharegpt (default)"),
    flag("--session", help="SOURCE is a session, not a file"),
    flag("--last", help="of each conversation only the last line, which has all its turns"),
    flag("--force", help="replace OUT when it exists"),
)
async def _convert(args: Namespace, cli: Cli) -> int:
    source = Path(args.source)
    if args.out is not None:
        ops.check_output(Path(args.out), overwrite=args.force)
    if args.session or not source.is_file():
        lines = iter([ops.TrajectoryLine(1, 0, await _session_entry(args, cli))])
    else:
        left_out = ops.superseded_lines(ops.read_lines(source)) if args.last else set[int]()
        lines = (line for line in ops.read_lines(source) if line.number not in left_out)
    bad: list[int] = []
    entries = _convert_lines(lines, args.to, bad, lambda text: cli.note(f"hermes: {source}:{text}"))
    if args.out is None:
        for text in entries:
            cli.say(text)
    else:
        out, count = Path(args.out), 0
        with ops.replaced(out, overwrite=True) as file:
            for count, text in enumerate(entries, start=1):  # noqa: B007 - used after the loop
                file.write(f"{text}\n")
            if not count:
                hint = f"{out} was not written"
                raise UsageError(f"there is no trajectory in {source}", hint=hint)
        cli.say(f"wrote {count:,} {'trajectory' if count == 1 else 'trajectories'} to {out}")
    return BAD_LINES if bad else 0


def _convert_lines(
    lines: Iterator[ops.TrajectoryLine], form: str, bad: list[int], tell: Callable[[str], None]
) -> Iterator[str]:
    """Yield the entries as JSON lines. Report invalid lines and add their numbers to `bad`."""
    for line in lines:
        if line.problem:
            tell(f"{line.number}: {plain_line(line.problem)}")
            bad.append(line.number)
        else:
            entry = json.dumps(FORMS[form](line.entry), ensure_ascii=False)
            yield escaped_json(clean(entry))


async def _session_entry(args: Namespace, cli: Cli) -> ops.Entry:
    loaded = cli.load()
    missing = f"there is no file and no session {plain_line(args.source)}"
    if not store_exists(cli.home, loaded.settings.store.url):
        raise SessionNotFound(missing, hint="`hermes sessions list` shows the sessions")
    async with opened_store(cli.home, loaded.settings.store.url, cli.note) as store:
        try:
            info = await store.resolve(plain_line(args.source))
        except SessionNotFound as error:
            raise SessionNotFound(f"{missing}: {error}", hint=error.hint) from error
        messages = await store.messages(info.id)
    from hermes.app import request_size  # loads every tool

    tools = [tool.spec for tool in request_size(loaded, cli.home, info.source).tools]
    return {
        "conversations": to_sharegpt(messages, tools),
        "timestamp": ops.local(info.last_active or info.started_at).isoformat(),
        "model": info.model,
        "completed": info.end_reason == "answered",
    }


def _clean(value: dict[str, Any]) -> Any:
    """Return the value without lone surrogates, which JSON cannot be encoded with."""
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))
