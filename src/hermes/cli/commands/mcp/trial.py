"""`hermes mcp test`: connect once, step by step, and say what is wrong."""

import argparse
import time
from collections.abc import Iterator

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import (
    awaited,
    fault_of,
    probed,
    server_named,
    tokens_folder,
    transport_of,
)
from hermes.cli.commands.mcp.wording import (
    document,
    examples,
    login_words,
    place_of,
    tool_facts,
    tool_rows,
    words_of,
)
from hermes.cli.context import Cli
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import HermesError
from hermes.mcp import ProbeResult, ServerCatalog, offered_tools
from hermes.mcp.oauth import LoginStore
from hermes.util.plain import plain_line
from hermes.util.text import many


class Step(msgspec.Struct, frozen=True):
    step: str
    ok: bool
    text: str
    seconds: float | None = None


class Report:
    """The steps that were taken; the last one may have failed."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.probe: ProbeResult | None = None

    @property
    def ok(self) -> bool:
        return all(step.ok for step in self.steps)


def add_actions(actions: Actions) -> None:
    test = actions.add(
        "test",
        _test,
        "connect to a server once and show what it offers",
        json=True,
        description="Connect to a server once, show each step and what it offers, and stop it\n"
        "again. The exit code is 1 when it does not work.",
        epilog=examples("hermes mcp test time", "hermes mcp test time --json"),
    )
    test.add_argument("name", metavar="NAME")


def _test(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    report = Report()
    for step in _steps(cli, args.name, settings, report):
        report.steps.append(step)
        if not args.json:
            timing = "" if step.seconds is None else f" ({step.seconds:.2f} s)"
            cli.say(f"{'✓' if step.ok else '✗'} {step.step}: {step.text}{timing}")
    if args.json:
        document(cli, _facts(args.name, settings, report))
    elif report.probe is not None:
        _show(cli, settings, report.probe)
    return 0 if report.ok else 1


def _steps(cli: Cli, name: str, settings: McpServer, report: Report) -> Iterator[Step]:
    """Each as it is done. A step that fails is the last one."""
    fault = fault_of(name, settings)
    if fault:
        yield Step("settings", False, plain_line(fault))
        return
    off = "" if settings.enabled else ", switched off"
    yield Step("settings", True, f"{transport_of(settings)}, {place_of(cli, settings)}{off}")
    if settings.auth == "oauth":
        try:
            login = LoginStore(tokens_folder(cli), name).load()
        except HermesError as error:
            yield Step("login", False, words_of(error))
            return
        usable = login is not None and login.url == settings.url and login.is_usable(time.time())
        words = login_words(login, settings.url)
        hint = "" if usable else f" (`hermes mcp login {name}` signs in)"
        yield Step("login", usable, words + hint)
        if not usable:
            return
    began = time.monotonic()
    try:
        found = awaited(cli, probed(cli, name, settings))
    except HermesError as error:
        yield Step("connect", False, words_of(error), time.monotonic() - began)
        return
    report.probe = found
    yield from _found(found)


def _found(found: ProbeResult) -> Iterator[Step]:
    server_info = found.server_info
    who = plain_line(f"{server_info.name} {server_info.version}") or "a server without a name"
    spoken = f"{who}, MCP {server_info.protocol} over {found.transport}"
    yield Step("connect", True, spoken, found.connect_seconds)
    out = f", {len(found.problems)} left out" if found.problems else ""
    yield Step("tools", True, many(len(found.tools), "tool") + out)
    others = f"{many(len(found.resources), 'resource')}, {many(len(found.prompts), 'prompt')}"
    yield Step("resources and prompts", True, others, found.list_seconds)


def _show(cli: Cli, settings: McpServer, found: ProbeResult) -> None:
    offered = offered_tools(settings, ServerCatalog(found.tools))
    for tool, line in zip(found.tools, tool_rows(found.tools) if found.tools else (), strict=True):
        cli.say(f"  {'✓' if tool in offered else '·'} {line}")
    for problem in found.problems:
        cli.say(f"  ✗ left out: {plain_line(problem)}")


def _facts(name: str, settings: McpServer, report: Report) -> dict[str, object]:
    facts: dict[str, object] = {"name": name, "ok": report.ok, "steps": report.steps}
    found = report.probe
    if found is None:
        return facts
    offered = offered_tools(settings, ServerCatalog(found.tools))
    return facts | {
        "transport": found.transport,
        "server": {
            "name": found.server_info.name,
            "version": found.server_info.version,
            "protocol": found.server_info.protocol,
            "instructions": found.server_info.instructions,
        },
        "tools": [tool_facts(tool, tool in offered) for tool in found.tools],
        "problems": found.problems,
        "resources": found.resources,
        "prompts": found.prompts,
    }
