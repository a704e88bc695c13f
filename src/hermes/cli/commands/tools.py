"""`hermes tools`, `prompt` and `approvals`: what the model receives, and what it may do."""

import io
import shlex
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hermes.app import (
    Extensions,
    PromptPreview,
    allow_rules,
    preview_prompt,
    request_size,
    set_tool_enabled,
    tool_rows,
    undescribed_toolsets,
)
from hermes.cli.context import Cli, Command, arg, flag, table
from hermes.cli.extensions import load_extensions
from hermes.config.settings import AllowRule
from hermes.core.errors import UsageError
from hermes.core.model import BYTES_PER_TOKEN, text_tokens
from hermes.prompt import LAYERS
from hermes.security import (
    CommandVerdict,
    PathGuard,
    covering_rules,
    danger_classes,
    describe_rule,
    examine,
    judge_command,
    merge_concerns,
    offered_scopes,
)
from hermes.tools import MCP_TOOLSET_PREFIX
from hermes.tui import one_line

DESCRIPTION_WIDTH = 60


@asynccontextmanager
async def _plugin_tools(cli: Cli) -> AsyncIterator[None]:
    """Load the tools of plugins, unless a conversation has already loaded them."""
    if Extensions.in_force() is not None or not cli.load().settings.plugins.enabled:
        yield
        return
    extensions = load_extensions(cli.load(), cli)
    try:
        yield
    finally:
        await extensions.close()


async def _list_or_summary(args: Namespace, cli: Cli, context: None) -> None:
    if not args.summary:
        await _list(args, cli, context)
        return
    loaded = cli.load()
    for platform in dict.fromkeys(("cli", *loaded.settings.platform_toolsets)):
        rows = tool_rows(loaded, cli.home, platform)
        on = [row for row in rows if row.on and not row.missing]
        cli.say(f"{platform}: {len(on)} of {len(rows)} tools")


TOOLS = Command(
    "tools",
    _list_or_summary,
    "Show and choose the tools of the agent.",
    flag("--summary", help="one line per platform"),
    needs=_plugin_tools,
    setup=lambda parser: parser.set_defaults(platform="cli"),
)
PLATFORM = arg("--platform", default="cli", metavar="NAME", help="cli (default), telegram, cron, …")
NAMES = arg("names", nargs="+", metavar="NAME", help="a toolset or a tool")


@TOOLS.action("list", "show tools by toolset", PLATFORM, json=True)
async def _list(args: Namespace, cli: Cli, _context: None) -> None:
    rows = tool_rows(cli.load(), cli.home, args.platform)
    width = max(len(row.name) for row in rows)
    lines, toolset = [], ""
    for row in rows:
        if row.toolset != toolset:
            toolset = row.toolset
            lines.append(f"{toolset}: {row.purpose}" if row.purpose else toolset)
        mark, state = (
            ("✓", one_line(row.description, DESCRIPTION_WIDTH)) if row.on else ("·", "off")
        )
        if row.missing:
            mark, state = "✗", f"not available: {row.missing}"
        elif row.on and row.rare:
            state = "found by tool_search"
        lines.append(f"  {mark} {row.name:<{width}}  {state}".rstrip())
    for name, on in undescribed_toolsets(cli.load(), cli.home, args.platform).items():
        server, off = name.removeprefix(MCP_TOOLSET_PREFIX), "" if on else "off; "
        lines.append(f"{name}: {off}its tools are not known yet (`hermes mcp test {server}` looks)")
    cli.emit(rows, lines)


@TOOLS.action("enable", "switch toolsets or tools on", NAMES, PLATFORM)
async def _enable(args: Namespace, cli: Cli, _context: None) -> None:
    _switch(args, cli, on=True)


@TOOLS.action("disable", "switch toolsets or tools off", NAMES, PLATFORM)
async def _disable(args: Namespace, cli: Cli, _context: None) -> None:
    _switch(args, cli, on=False)


def _switch(args: Namespace, cli: Cli, *, on: bool) -> None:
    now = set_tool_enabled(cli.load(), cli.home, args.platform, args.names, on=on)
    state = "on" if on else "off"
    cli.say(f"{', '.join(args.names)}: {state} for {args.platform} ({', '.join(now) or 'nothing'})")


@TOOLS.action(
    "schema",
    "show what tools add to every request",
    PLATFORM,
    flag("--full", help="the schemas themselves"),
    json=True,
)
async def _schema(args: Namespace, cli: Cli, _context: None) -> None:
    paid = request_size(cli.load(), cli.home, args.platform)
    if args.full and not args.json:
        names = ("name", "description", "parameters")
        schemas = [{name: getattr(tool.spec, name) for name in names} for tool in paid.tools]
        cli.json([{"type": "function", "function": schema} for schema in schemas])
        return
    sizes = [(tool.chars, tool.name) for tool in sorted(paid.tools, key=lambda tool: -tool.chars)]
    total = f"characters in every request, about {paid.tokens:,} tokens"
    sizes += [(paid.system_prompt, "system prompt"), (paid.total, total)]
    cli.emit(paid, (f"{chars:>7,}  {what}" for chars, what in sizes))


# `hermes prompt`: the system prompt and its size.

PROMPT = Command("prompt")


@PROMPT.action(
    "show",
    "print the system prompt and its size",
    PLATFORM,
    arg("--layer", choices=tuple(LAYERS), default="", metavar="NAME", help=", ".join(LAYERS)),
    json=True,
)
def _show(args: Namespace, cli: Cli) -> None:
    shown = preview_prompt(cli.load(), cli.home, Path.cwd(), args.platform)
    if args.layer:
        layers = shown.prompt.layers
        text = next((layer.text for layer in layers if layer.name == args.layer), "")
        if not text and not args.json:
            cli.note(f"the layer {args.layer} is empty here")
        else:
            cli.emit(_layer(args.layer, text), text)
        return
    *_, tools, total = sizes = _sizes(shown)
    facts = {
        "text": shown.prompt.text,
        "layers": [_layer(layer.name, layer.text) for layer in shown.prompt.layers],
        "tools": {"chars": tools[1], "tokens": tools[2]},
        "total": {"chars": total[1], "tokens": total[2]},
    }
    cli.emit(facts, shown.prompt.text)
    for name, chars, tokens in () if args.json else (("", 0, 0), *sizes):
        cli.note(name and f"{chars:>8,} characters  {tokens:>7,} tokens  {name}")


def _layer(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "chars": len(text), "tokens": text_tokens(text), "text": text}


def _sizes(shown: PromptPreview) -> list[tuple[str, int, int]]:
    """Return name, characters and estimated tokens of each layer, the tools and the total."""
    whole, tool_chars = shown.prompt.text, shown.tool_chars
    tool_tokens = -(-tool_chars // BYTES_PER_TOKEN)
    return [
        *((each.name, len(each.text), text_tokens(each.text)) for each in shown.prompt.layers),
        ("tool schemas", tool_chars, tool_tokens),
        ("in every request", len(whole) + tool_chars, text_tokens(whole) + tool_tokens),
    ]


# `hermes approvals`: which commands need approval, why, and which are approved permanently.

STDIN = "-"
ALLOWLIST = "command_allowlist"
RULE_WIDTH = 2_000


APPROVALS = Command("approvals")


@APPROVALS.action(
    "test",
    "say whether a command is allowed, asked about or refused",
    arg("command", help="in quotes; - reads one a line from stdin, plain or as JSON strings"),
    arg("--cwd", default=".", metavar="DIR", help="where it would run (here)"),
    flag("--json", help="one JSON object a line"),
)
def _test(args: Namespace, cli: Cli) -> None:
    folder, guard = _folder_and_guard(args, cli)
    settings = cli.load().settings
    mode, rules = settings.approvals.mode, allow_rules(settings)

    for command in [args.command] if args.command != STDIN else _read_commands(cli):
        found = judge_command(command, examine(command, guard, str(folder)), mode, rules)
        if args.json:
            cli.show(msgspec.json.encode(found).decode())
        elif args.command != STDIN:
            cli.say(_explain_verdict(found))
        else:
            classes, words = ", ".join(found.classes) or "-", found.command.split()
            cli.say(f"{found.verdict:<7} {classes:<24} {' '.join(words)}")


def _folder_and_guard(args: Namespace, cli: Cli) -> tuple[Path, PathGuard]:
    folder = Path(args.cwd).expanduser()
    if not folder.is_dir():
        raise UsageError(f"--cwd {args.cwd!r} is not a folder")
    folder = folder.resolve()
    own = tuple(dict.fromkeys((cli.home.root, cli.home.default_root)))
    return folder, PathGuard(home=Path.home(), workspace=(folder,), own=own)


def _read_commands(cli: Cli) -> Iterator[str]:
    """Read a command per line. A line that is a JSON string is decoded."""
    if isinstance(cli.stdin, io.TextIOWrapper):
        cli.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    for line in cli.stdin:
        text = line.rstrip("\r\n")
        try:
            yield msgspec.json.decode(text, type=str) if text.startswith('"') else text
        except msgspec.DecodeError:  # a command that begins with a quote
            yield text


def _explain_verdict(verdict: CommandVerdict) -> str:
    lines: list[tuple[str, str]] = [("verdict", verdict.verdict)]
    if verdict.classes:
        lines.append(("class", ", ".join(verdict.classes)))
    if verdict.reasons and verdict.reason != "; ".join(verdict.reasons):
        lines.append(("because", verdict.reason))
    lines += [("reason", reason) for reason in verdict.reasons]
    lines.append(("programs", ", ".join(verdict.programs) or "none"))
    return "\n".join(f"{name:<9} {value}" for name, value in lines)


@APPROVALS.action("list", "show the mode and what is always allowed", json=True)
def _list_approvals(_args: Namespace, cli: Cli) -> None:
    settings = cli.load().settings
    mode, timeout = settings.approvals.mode, settings.approvals.timeout
    rules = allow_rules(settings)
    facts = {"mode": mode, "timeout": timeout, ALLOWLIST: settings.command_allowlist}
    lines = [f"approvals.mode     {mode}", f"approvals.timeout  {timeout:g} s"]
    rows = [
        (str(number), rule.date or "-", one_line(describe_rule(rule), RULE_WIDTH))
        for number, rule in enumerate(rules, 1)
    ]
    lines += table(rows) if rows else ["nothing is always allowed"]
    cli.emit({**facts, "rules": settings.approvals.rules}, lines)


@APPROVALS.action(
    "explain",
    "say what a rule covers, or which rule would allow a command",
    arg("what", metavar="NUMBER|COMMAND", help="a number of the list, or a command in quotes"),
    arg("--cwd", default=".", metavar="DIR", help="where the command would run (here)"),
)
def _explain(args: Namespace, cli: Cli) -> None:
    rules = allow_rules(cli.load().settings)
    if args.what.isdecimal():
        cli.say(_explain_rule(_find_rule(args.what, rules)))
        return
    folder, guard = _folder_and_guard(args, cli)
    concern = merge_concerns(list(examine(args.what, guard, str(folder)).concerns))
    if concern is None:
        cli.say("no rule is needed: this command is not asked about")
    elif concern.refused:
        cli.say(f"no rule can allow this: {concern.reason}")
    elif found := covering_rules(rules, "terminal", concern):
        for number in found:
            cli.say(f"rule {number + 1}:\n{_explain_rule(rules[number])}")
    elif concern.once_only:
        cli.say(f"no rule can allow this, only a person, once: {concern.reason}")
    else:
        cli.say("no rule allows this; it is asked about. The answer can cover:")
        for scope in offered_scopes("terminal", concern):
            cli.say(f"  {scope.value:<11} {scope.label}")


def _explain_rule(rule: AllowRule) -> str:
    place = f"{rule.folder}{'' if rule.command else ' and below'}" if rule.folder else "everywhere"
    call = rule.command or shlex.join(rule.arguments)
    lines = [
        ("allows", describe_rule(rule)),
        ("classes", ", ".join(rule.classes)),
        ("call", call),
        ("tool", rule.tool or "any"),
        ("folder", place),
        ("since", rule.date or "unknown"),
        ("reason", rule.reason),
    ]
    texts = ((name, one_line(text, RULE_WIDTH)) for name, text in lines if text)
    return "\n".join(f"  {name:<8} {text}" for name, text in texts)


def _find_rule(number: str, rules: Sequence[AllowRule]) -> AllowRule:
    """Return the rule with this number in the list. Raises `UsageError`."""
    if number.isdecimal() and 0 < int(number) <= len(rules):
        return rules[int(number) - 1]
    known = f"there are 1 to {len(rules)}" if rules else "there are no rules"
    raise UsageError(f"there is no rule {number!r}", hint=f"{known}; see hermes approvals list")


@APPROVALS.action(
    "remove",
    "ask again about what a rule allowed",
    arg("number", metavar="NUMBER", help="as `hermes approvals list` shows it"),
)
def _remove(args: Namespace, cli: Cli) -> None:
    settings = cli.load().settings
    rules, classes = allow_rules(settings), len(settings.command_allowlist)
    rule = _find_rule(args.number, rules)
    place = int(args.number) - 1
    key = (ALLOWLIST, place) if place < classes else ("approvals", "rules", place - classes)
    from hermes.config import edit  # ruamel.yaml, needed only to write

    edit.unset_value(cli.home, tuple(map(str, key)))
    cli.say(f"removed: {one_line(describe_rule(rule), RULE_WIDTH)}")


@APPROVALS.action("classes", "list the classes of commands that are asked about", json=True)
def _classes(_args: Namespace, cli: Cli) -> None:
    found = danger_classes()
    marks = ("", " (always refused)")
    rows = [(each.kind, f"{'; '.join(each.reasons)}{marks[each.refused]}") for each in found]
    facts = [{"class": c.kind, "reasons": c.reasons, "refused": c.refused} for c in found]
    cli.emit(facts, table(rows))


@APPROVALS.action(
    "forget",
    "ask again about a class that was always allowed",
    arg("kind", metavar="CLASS", help="as `hermes approvals list` shows it"),
)
def _forget(args: Namespace, cli: Cli) -> None:
    wanted = args.kind.strip().lower()
    held = cli.load().raw.get(ALLOWLIST) or ()  # also entries that are not confirmed
    places = [place for place, kind in enumerate(held) if kind.strip().lower() == wanted]
    if not places:
        known = ", ".join(held) or "nothing"
        raise UsageError(f"{args.kind!r} is not in {ALLOWLIST}", hint=f"it holds {known}")
    from hermes.config import edit  # ruamel.yaml, needed only to write

    for place in reversed(places):
        edit.unset_value(cli.home, (ALLOWLIST, str(place)))
    cli.say(f"{args.kind} will be asked about again")


@APPROVALS.action("confirm", "show what the settings would allow in addition, and accept it")
def _confirm(_args: Namespace, cli: Cli) -> None:
    from hermes.cli.commands.config import ask_confirmation  # a slow YAML library

    if not ask_confirmation(cli):
        cli.say("nothing to confirm: the whole policy of the settings is in effect")
