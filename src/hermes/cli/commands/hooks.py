"""`hermes hooks`: shell commands that run at events of the agent."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from hermes import plugins
from hermes.cli.context import Cli, Command, arg, flag
from hermes.config.environment import child_environment, search_path
from hermes.core.errors import ConfigError, UsageError
from hermes.core.ports import HookName
from hermes.plugins.hooks import ARGUMENTS

SLOW = 2.0  #: Seconds after which a hook is reported as slow.
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


COMMAND = Command("hooks")


def _hooks(cli: Cli) -> tuple[plugins.HookSpec, ...]:
    return plugins.parse_hooks(cli.load().settings.hooks, plugins.ProblemReporter(cli.note))


@COMMAND.action("list", "show hooks and whether you approved them", json=True)
def _list(_args: Namespace, cli: Cli) -> None:
    hooks, approvals = _hooks(cli), plugins.HookApprovals(cli.home.root)
    approvals.all()
    unasked = cli.load().settings.hooks_auto_accept
    facts = [
        {
            "event": hook.event,
            "matcher": hook.pattern.pattern if hook.pattern else "",
            "command": hook.command,
            "timeout": hook.timeout,
            "approved": approvals.find(hook.event, hook.command) is not None,
        }
        for hook in hooks
    ]

    def line(hook: dict[str, Any]) -> str:
        mark, state = "✓", ""
        if not (unasked or hook["approved"]):
            mark, state = "·", "  (not approved yet)"
        tools = f" [{hook['matcher']}]" if hook["matcher"] else ""
        return f"{mark} {hook['event']}{tools}  {hook['command']}{state}"

    cli.emit(facts, line=line, empty="there are no shell hooks; the setting `hooks` holds them")


@COMMAND.action(
    "test",
    "run the hooks of an event with a made-up call",
    arg("event", metavar="EVENT", help="such as pre_tool_call"),
    arg("--for-tool", default="", metavar="NAME", help="a call of this tool"),
    arg("--payload-file", metavar="FILE", help="JSON with arguments of the event to use instead"),
    flag("--accept-hooks", help="run them without asking"),
)
async def _test(args: Namespace, cli: Cli) -> int:
    try:
        event = plugins.parse_event(args.event)
    except ValueError as error:
        raise UsageError(str(error)) from error
    details = _example_payload(event, args.for_tool, args.payload_file)
    hooks = [hook for hook in _hooks(cli) if hook.event is event]
    chosen = [hook for hook in hooks if hook.is_for(details.get("tool_name"))]
    if not chosen:
        others = f" ({len(hooks)} for other tools)" if hooks else ""
        raise UsageError(f"there is no shell hook for {event}{others}")
    plugins.HookApprovals(cli.home.root).all()
    runs = [await _run(hook, details, args, cli) for hook in chosen]
    for hook, ran in zip(chosen, runs, strict=True):
        if ran is not None:
            _show(hook, ran, cli)
    return 1 if any(ran is None or ran.failure for ran in runs) else 0


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


async def _run(
    hook: plugins.HookSpec, details: dict[str, Any], args: Namespace, cli: Cli
) -> plugins.HookRun | None:
    """Run the hook; return None if it is not approved."""
    approvals = plugins.HookApprovals(cli.home.root)
    unasked = args.accept_hooks or cli.load().settings.hooks_auto_accept
    approved = unasked or approvals.find(hook.event, hook.command) is not None
    if not approved and cli.interactive:
        approved = cli.confirm(f"Let `{hook.command}` run at {hook.event} from now on?")
        if approved:
            approvals.allow(hook.event, hook.command)
    if not approved:
        cli.note(f"{hook.command}: not run, it is not approved (--accept-hooks runs it)")
        return None
    environment = child_environment(saved=cli.load().saved)
    options = plugins.HookOptions(environment=environment, folder=lambda: str(Path.cwd()))
    hooks = plugins.ShellHooks((hook,), approvals, options, plugins.ProblemReporter())
    try:
        return await hooks.run_one(hook, details)
    finally:
        await hooks.close()


def _show(hook: plugins.HookSpec, ran: plugins.HookRun, cli: Cli) -> None:
    code = "stopped" if ran.exit_code is None else f"exit code {ran.exit_code}"
    cli.say(f"{hook.command}: {code} after {ran.seconds:.1f} s")
    if ran.errors:
        cli.say(f"  errors: {ran.errors}")
    answer, problem = plugins.parse_answer(hook.event, ran.output)
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


@COMMAND.action(
    "revoke",
    "ask again about a command",
    arg("command", metavar="COMMAND", help="as `hermes hooks list` shows it"),
)
def _revoke(args: Namespace, cli: Cli) -> None:
    approvals = plugins.HookApprovals(cli.home.root)
    if not approvals.revoke(args.command):
        known = ", ".join(sorted({each.command for each in approvals.all()})) or "nothing"
        raise UsageError(f"{args.command!r} is not approved", hint=f"approved: {known}")
    cli.say(f"{args.command} will be asked about again")


@COMMAND.action(
    "doctor",
    "try every hook and say what is wrong",
    flag("--accept-hooks", help="run them without asking"),
)
async def _doctor(args: Namespace, cli: Cli) -> int:
    wrong: list[str] = []
    hooks = plugins.parse_hooks(cli.load().settings.hooks, plugins.ProblemReporter(wrong.append))
    approvals = plugins.HookApprovals(cli.home.root)
    try:
        approvals.all()
    except ConfigError as error:
        wrong.append(str(error))
        hooks = ()
    for problem in wrong:
        cli.say(f"✗ {problem}")
    worst = int(bool(wrong))
    for hook in hooks:
        problems = await _problems(hook, approvals, args, cli)
        worst = max(worst, int(bool(problems)))
        cli.say(f"{'✗' if problems else '✓'} {hook.event}  {hook.command}")
        for problem in problems:
            cli.say(f"    {problem}")
    if not hooks and not wrong:
        cli.say("there are no shell hooks")
    return worst


async def _problems(
    hook: plugins.HookSpec, approvals: plugins.HookApprovals, args: Namespace, cli: Cli
) -> list[str]:
    program, problem = plugins.find_program(hook.command, search_path())
    if problem or program is None:
        return [problem]
    unasked = cli.load().settings.hooks_auto_accept
    given = approvals.find(hook.event, hook.command)
    found = [] if given or unasked else ["not approved yet: it does not run"]
    for file in plugins.hook_files(hook.command, program):
        status = file.stat()
        if given is not None and status.st_mtime > given.given_at > 0:
            found.append(f"{file} was changed after you approved it; look at it again")
        if status.st_mode & 0o022:
            found.append(f"{file} can be changed by other users (chmod go-w)")
    if given is None and not args.accept_hooks and not unasked:
        return found
    ran = await _run(hook, _example_payload(hook.event, "", None), args, cli)
    if ran is not None:
        _, ignored = plugins.parse_answer(hook.event, ran.output)
        slow = f"it takes {ran.seconds:.1f} s" if ran.seconds > SLOW else ""
        found += filter(None, (ran.failure, ignored, slow))
    return found
