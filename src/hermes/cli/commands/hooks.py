"""`hermes hooks`: shell commands that run at events of the agent."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec

from hermes.cli.context import Actions, Cli, Command
from hermes.config.environment import child_environment, search_path
from hermes.core.errors import ConfigError, UsageError
from hermes.core.ports import HookName
from hermes.plugins.hooks import ARGUMENTS, parse_event
from hermes.plugins.isolation import ProblemReporter
from hermes.plugins.shell_hooks import (
    HookApprovals,
    HookOptions,
    HookRun,
    HookSpec,
    ShellHooks,
    find_program,
    hook_files,
    parse_answer,
    parse_hooks,
)

SLOW = 2.0
"""Seconds after which a hook is reported as slow."""
SAMPLES: dict[str, Any] = {
    "tool_name": "terminal",
    "args": {"command": "echo hello"},
    "task_id": "20260101_120000_0000abcd",
    "session_id": "20260101_120000_0000abcd",
    "parent_session_id": "20260101_120000_0000abcd",
    "result": '{"output": "hello", "exit_code": 0}',
    "output": "hello",
    "user_message": "say hello",
    "assistant_response": "hello",
    "conversation_history": [],
    "is_first_turn": True,
    "completed": True,
    "interrupted": False,
    "model": "example/model",
    "platform": "cli",
}
"""Arguments for `hermes hooks test`; others are empty strings."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The commands of yours that run at events of the agent (the setting `hooks`).\n"
        "None runs without your consent, which is asked for once for each event and command."
    )
    action = Actions(parser).add
    action("list", _list, "show hooks and whether you consented to them", json=True)
    test = action("test", _test, "run the hooks of an event with a made-up call")
    test.add_argument("event", metavar="EVENT", help="such as pre_tool_call")
    test.add_argument("--for-tool", default="", metavar="NAME", help="a call of this tool")
    test.add_argument(
        "--payload-file", metavar="FILE", help="JSON with arguments of the event to use instead"
    )
    revoke = action("revoke", _revoke, "ask again about a command")
    revoke.add_argument("command", metavar="COMMAND", help="as `hermes hooks list` shows it")
    doctor = action("doctor", _doctor, "try every hook and say what is wrong")
    for running in (test, doctor):
        running.add_argument("--accept-hooks", action="store_true", help="run them without asking")


def _hooks(cli: Cli) -> tuple[HookSpec, ...]:
    return parse_hooks(cli.load().settings.hooks, ProblemReporter(cli.note))


def _list(args: argparse.Namespace, cli: Cli) -> int:
    hooks, consents = _hooks(cli), HookApprovals(cli.home.root)
    consents.all()
    unasked = cli.load().settings.hooks_auto_accept
    if args.json:
        cli.json([_facts(hook, consents) for hook in hooks])
        return 0
    if not hooks:
        cli.say("there are no shell hooks; the setting `hooks` holds them")
    for hook in hooks:
        allowed = unasked or consents.find(hook.event, hook.command) is not None
        tools = f" [{hook.pattern.pattern}]" if hook.pattern else ""
        state = "" if allowed else "  (no consent yet)"
        cli.say(f"{'✓' if allowed else '·'} {hook.event}{tools}  {hook.command}{state}")
    return 0


def _facts(hook: HookSpec, consents: HookApprovals) -> dict[str, Any]:
    return {
        "event": hook.event,
        "matcher": hook.pattern.pattern if hook.pattern else "",
        "command": hook.command,
        "timeout": hook.timeout,
        "consent": consents.find(hook.event, hook.command) is not None,
    }


def _test(args: argparse.Namespace, cli: Cli) -> int:
    try:
        event = parse_event(args.event)
    except ValueError as error:
        raise UsageError(str(error)) from error
    details = _example_payload(event, args.for_tool, args.payload_file)
    hooks = [hook for hook in _hooks(cli) if hook.event is event]
    chosen = [hook for hook in hooks if hook.is_for(details.get("tool_name"))]
    if not chosen:
        others = f" ({len(hooks)} for other tools)" if hooks else ""
        raise UsageError(f"there is no shell hook for {event}{others}")
    HookApprovals(cli.home.root).all()
    failed = 0
    for hook in chosen:
        ran = _run(hook, details, args, cli)
        if ran is None:
            failed += 1
            continue
        failed += bool(ran.failure)
        _show(hook, ran, cli)
    return 1 if failed else 0


def _example_payload(event: HookName, tool: str, file: str | None) -> dict[str, Any]:
    """Return sample arguments of the event, overridden by those of a file."""
    details = {name: SAMPLES.get(name, "") for name in ARGUMENTS[event]}
    if tool and "tool_name" not in details:
        raise UsageError(f"{event} has no tool; leave out --for-tool")
    if tool:
        details["tool_name"] = tool
        details |= {"args": {}} if tool != SAMPLES["tool_name"] else {}
    if file is None:
        return details
    try:
        given = msgspec.json.decode(Path(file).expanduser().read_bytes(), type=dict[str, Any])
        extra = msgspec.convert(given.pop("extra", {}), dict[str, Any])
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} does not hold arguments of a hook: {error}") from error
    given |= extra  # a whole payload is accepted too
    if "tool_input" in given:
        given["args"] = given.pop("tool_input")
    return {**details, **{name: held for name, held in given.items() if name in details}}


def _run(
    hook: HookSpec, details: dict[str, Any], args: argparse.Namespace, cli: Cli
) -> HookRun | None:
    """Run the hook; return None if it is not approved."""
    consents = HookApprovals(cli.home.root)
    if not _may_run(hook, consents, args, cli):
        cli.note(f"{hook.command}: not run, there is no consent (--accept-hooks runs it)")
        return None
    environment = child_environment(saved=cli.load().saved)
    options = HookOptions(environment=environment, folder=lambda: str(Path.cwd()))

    async def work() -> HookRun:
        hooks = ShellHooks((hook,), consents, options, ProblemReporter())
        try:
            return await hooks.run_one(hook, details)
        finally:
            await hooks.close()

    return asyncio.run(work())


def _may_run(hook: HookSpec, consents: HookApprovals, args: argparse.Namespace, cli: Cli) -> bool:
    settings = cli.load().settings
    if args.accept_hooks or settings.hooks_auto_accept:
        return True
    if consents.find(hook.event, hook.command) is not None:
        return True
    if not cli.interactive:
        return False
    question = f"Let `{hook.command}` run at {hook.event} from now on? [y/N] "
    if cli.ask(question).strip().lower() not in ("y", "yes"):
        return False
    consents.allow(hook.event, hook.command)
    return True


def _show(hook: HookSpec, ran: HookRun, cli: Cli) -> None:
    code = "stopped" if ran.exit_code is None else f"exit code {ran.exit_code}"
    cli.say(f"{hook.command}: {code} after {ran.seconds:.1f} s")
    if ran.errors:
        cli.say(f"  errors: {ran.errors}")
    answer, problem = parse_answer(hook.event, ran.output)
    if ran.failure:
        cli.say(f"  failed: {ran.failure}")
        if hook.event is HookName.PRE_TOOL_CALL:
            cli.say("  the call would be blocked: a check that fails forbids")
    elif problem:
        cli.say(f"  {'ignored' if answer is None else 'not clear'}: {problem}")
    if answer is not None:
        cli.say(f"  answer: {msgspec.json.encode(answer).decode()}")
    elif not ran.failure and not problem:
        cli.say("  answer: nothing to say")


def _revoke(args: argparse.Namespace, cli: Cli) -> int:
    consents = HookApprovals(cli.home.root)
    if not consents.revoke(args.command):
        known = ", ".join(sorted({each.command for each in consents.all()})) or "nothing"
        raise UsageError(f"there is no consent to {args.command!r}", hint=f"consented to: {known}")
    cli.say(f"{args.command} will be asked about again")
    return 0


def _doctor(args: argparse.Namespace, cli: Cli) -> int:
    wrong: list[str] = []
    hooks = parse_hooks(cli.load().settings.hooks, ProblemReporter(wrong.append))
    consents = HookApprovals(cli.home.root)
    try:
        consents.all()
    except ConfigError as error:
        wrong.append(str(error))
        hooks = ()
    for problem in wrong:
        cli.say(f"✗ {problem}")
    worst = int(bool(wrong))
    for hook in hooks:
        problems = _problems(hook, consents, args, cli)
        worst = max(worst, int(bool(problems)))
        cli.say(f"{'✗' if problems else '✓'} {hook.event}  {hook.command}")
        for problem in problems:
            cli.say(f"    {problem}")
    if not hooks and not wrong:
        cli.say("there are no shell hooks")
    return worst


def _problems(
    hook: HookSpec, consents: HookApprovals, args: argparse.Namespace, cli: Cli
) -> list[str]:
    program, problem = find_program(hook.command, search_path())
    if problem or program is None:
        return [problem]
    unasked = cli.load().settings.hooks_auto_accept
    given = consents.find(hook.event, hook.command)
    found = [] if given or unasked else ["no consent yet: it does not run"]
    for file in hook_files(hook.command, program):
        status = file.stat()
        if given is not None and status.st_mtime > given.given_at > 0:
            found.append(f"{file} was changed after you consented; look at it again")
        if status.st_mode & 0o022:
            found.append(f"{file} can be changed by other users (chmod go-w)")
    if given is None and not args.accept_hooks and not unasked:
        return found
    ran = _run(hook, _example_payload(hook.event, "", None), args, cli)
    if ran is not None:
        found += _hook_faults(hook, ran)
    return found


def _hook_faults(hook: HookSpec, ran: HookRun) -> list[str]:
    _, ignored = parse_answer(hook.event, ran.output)
    slow = f"it takes {ran.seconds:.1f} s" if ran.seconds > SLOW else ""
    return [text for text in (ran.failure, ignored, slow) if text]


COMMAND = Command(configure)
