"""Commands about the conversation itself."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from hermes.app import prompting
from hermes.app.app import shorten_goal
from hermes.app.build import ContextUsage
from hermes.app.commands import CommandCall, CommandDef, CommandGroup, commands_in, resolve_command
from hermes.app.model_choice import parse_choice, save_choice
from hermes.app.tools import find_toolsets
from hermes.core.errors import UsageError
from hermes.core.events import Compacted
from hermes.core.messages import Message, User
from hermes.core.model import Usage
from hermes.providers import Target
from hermes.store.rows import repair_history
from hermes.terminal import ProcessState
from hermes.tools.checkpoints import checkpoints
from hermes.util.text import many, new_session_id


async def new(call: CommandCall) -> str:
    agent = await call.app.renew(call.agent, call.talk.continue_with)
    return f"A new conversation: session `{agent.session_id}`"


async def retry(call: CommandCall) -> str:
    asked = _last_user_message(call)
    await _take_back(call, 1)
    await call.talk.ask(User(asked.said))
    return ""


async def undo(call: CommandCall) -> str:
    given = call.arguments or "1"
    if not given.isdecimal() or not int(given):
        raise UsageError(f"{given!r} is not a number", hint=f"/{call.command.name} [N]")
    turns = int(given)
    _last_user_message(call)
    return undo_message(call, await _take_back(call, turns))


def undo_message(call: CommandCall, text: str) -> str:
    left = sum(isinstance(message, User) for message in call.agent.history)
    return f"Taken back from: {shorten_goal(text)}\n{many(left, 'question')} left."


async def title(call: CommandCall) -> str:
    store, session = call.app.store, call.agent.session_id
    if call.arguments:
        await store.set_title(session, call.arguments)
    found = (await store.info(session)).title
    return f"Title: {found}" if found else "This session has no title yet: `/title TITLE`"


async def compress(call: CommandCall) -> str:
    event = await call.agent.compress(call.arguments)
    if not isinstance(event, Compacted):
        return getattr(event, "text", "")
    saved = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
    return f"Compacted: {saved}, now session `{event.session_id}`"


async def rollback(call: CommandCall) -> str:
    session_tools = call.app.session(call.agent).session_tools
    if not session_tools.has_checkpoints:
        raise UsageError(
            "there are no checkpoints here",
            hint="they need checkpoints.enabled and files on this machine",
        )
    return await checkpoints.rollback(session_tools.checkpoints, call.arguments)


async def stop(call: CommandCall, already_stopped: int = 0) -> str:
    """Stop the turn, or else all background work.

    `already_stopped` is the number of tasks that the caller stopped before.
    """
    if call.agent.interrupt():
        return ""
    count = already_stopped + await call.app.background.stop(call.agent)
    processes = call.app.session(call.agent).session_tools.processes
    for process in _running(call):
        await processes.kill(process.id)
        count += 1
    return stopped_message(count)


def stopped_message(count: int) -> str:
    return f"Stopped {many(count, 'background task')}." if count else "Nothing is running."


async def queue(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("nothing to keep", hint="/queue MESSAGE")
    call.talk.later(call.arguments)
    return "Kept for after this turn." if call.talk.busy else ""


async def steer(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("nothing to say", hint="/steer MESSAGE")
    if call.agent.steer(call.arguments):
        return "The agent hears it after its next step."
    await call.talk.ask(User.say(call.arguments))
    return ""


async def resume(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("which conversation?", hint="/resume ID or TITLE; /sessions lists them")
    found = await call.app.store.resolve(call.arguments)
    if found.id == call.agent.session_id:
        return "You are in this conversation."
    await call.app.move(call.agent, found.id, call.talk.continue_with)
    return f"Back in {found.title or found.id}."


async def branch(call: CommandCall) -> str:
    store, old = call.app.store, call.agent.session_id
    if not call.agent.history:
        raise UsageError("there is nothing to branch from yet")
    session = new_session_id(call.app.clock.now())
    await store.branch(old, session)
    return await into_branch(call, old, session)


async def into_branch(call: CommandCall, old: str, session: str) -> str:
    """Go on in a copy that is made."""
    if call.arguments:
        await call.app.store.set_title(session, call.arguments)
    if call.agent.session_id != session:
        await call.app.move(call.agent, session, call.talk.continue_with)
    return f"This is a copy now: session `{session}`. `/resume {old}` goes back."


async def background(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("what is to be done?", hint="/background TASK")
    task = call.app.background.start(
        call.agent, call.app.session(call.agent).request, call.arguments, call.talk.show
    )
    return f"Started `{task}`; its answer comes here. `/agents` shows what runs."


async def agents(call: CommandCall) -> str:
    return format_background(list_background(call))


def list_background(call: CommandCall) -> list[str]:
    """What runs beside the conversation, a line each."""
    tasks = call.app.background.lines(call.agent)
    return [*tasks, *(f"`{each.id}` {shorten_goal(each.command)}" for each in _running(call))]


def format_background(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing runs in the background."


async def btw(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("what do you want to know?", hint="/btw QUESTION")
    return await call.app.session(call.agent).reviewer.answer_aside(call.agent, call.arguments)


def _last_user_message(call: CommandCall) -> User:
    asked = [message for message in call.agent.history if isinstance(message, User)]
    if not asked:
        raise UsageError("nothing was asked yet")
    if call.agent.running:
        raise UsageError("a turn is running", hint="/stop ends it")
    return asked[-1]


async def _take_back(call: CommandCall, turns: int) -> str:
    """The text of the first question taken back."""
    agent, store = call.agent, call.app.store
    text = await store.undo(agent.session_id, turns)
    agent.rewrite(_remaining_history(agent.history, await store.messages(agent.session_id)))
    return text


def _remaining_history(
    history: tuple[Message, ...], stored: tuple[Message, ...]
) -> tuple[Message, ...]:
    """What is left of `history`. Its own messages are taken rather than the stored ones: they are
    what the model was sent, asides and all, and what its cache knows."""
    left = history[: len(stored)]
    same = all(type(one) is type(other) for one, other in zip(left, stored, strict=False))
    return left if same and len(left) == len(stored) else repair_history(stored)


def _running(call: CommandCall) -> list[ProcessState]:
    processes = call.app.session(call.agent).session_tools.processes
    return [each for each in processes.list() if each.state == "running"]


# Commands about what is used in a conversation.

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
GLOBAL = "--global"
FAST: dict[str, dict[str, object]] = {
    "openai": {"service_tier": "priority"},
    "openai-codex": {"service_tier": "priority"},
}
"""What asks a provider for faster answers, at a higher price."""


async def model(call: CommandCall) -> str:
    session, words = call.app.session(call.agent), call.words
    lasting = GLOBAL in words
    wanted = " ".join(word for word in words if word != GLOBAL)
    if session.request.remote is not None:
        return f"Here answers {session.target.provider}, which chooses its model itself."
    if not wanted:
        how = f"`/model [PROVIDER:]MODEL` changes it for this conversation, `{GLOBAL}` for good."
        return f"{_named(session.target)}\n\n{how}"
    providers = call.app.providers
    choice = parse_choice(wanted, call.app.loaded, session.target)
    target = await providers.ready(choice)
    await session.switch(target)
    if lasting:
        await asyncio.to_thread(save_choice, call.app.home, choice, target)
    doubt = providers.doubt(target)
    told = f"From now on: {_named(target)}" + (", also in new conversations" if lasting else "")
    return f"{told}\n\n{doubt}" if doubt else told


def _named(target: Target) -> str:
    window = target.profile.context_length
    return f"**{target.model}** on {target.provider}, {window:,} tokens of context"


async def reasoning(call: CommandCall) -> str:
    wanted = call.arguments.lower()
    effort = call.agent.base_request.reasoning_effort
    if not wanted:
        return f"Reasoning effort: {effort}. `/reasoning {' | '.join(EFFORTS)}` changes it."
    if wanted not in EFFORTS:
        raise UsageError(f"{wanted!r} is not an effort", hint=", ".join(EFFORTS))
    call.agent.base_request = msgspec.structs.replace(
        call.agent.base_request, reasoning_effort=wanted
    )
    return f"Reasoning effort from now on: {wanted}"


async def fast(call: CommandCall) -> str:
    session, wanted = call.app.session(call.agent), call.arguments.lower()
    body = session.target.profile.extra_body
    more = FAST.get(session.target.provider)
    if wanted in ("", "status"):
        return f"Answers: {'fast' if more and more.items() <= body.items() else 'normal'}"
    if wanted not in ("fast", "normal"):
        raise UsageError(f"{wanted!r} is not a speed", hint="/fast [normal | fast | status]")
    if more is None:
        raise UsageError(
            f"{session.target.provider} has no faster answers to offer",
            hint=f"these have: {', '.join(FAST)}",
        )
    body = {key: value for key, value in body.items() if key not in more}
    body |= more if wanted == "fast" else {}
    profile = msgspec.structs.replace(session.target.profile, extra_body=body)
    await session.switch(msgspec.structs.replace(session.target, profile=profile))
    return f"Answers from now on: {wanted}"


async def personality(call: CommandCall) -> str:
    settings = call.app.loaded.settings
    if not call.arguments:
        known = ", ".join(prompting.personality_names(settings))
        return f"Personalities: {known}, {prompting.NONE}. `/personality NAME` chooses one."
    call.agent.extra_system_prompt = prompting.personality_text(call.arguments, settings)
    if not call.agent.extra_system_prompt:
        return "No personality from now on."
    return f"From now on: {call.arguments.lower()}."


async def yolo(call: CommandCall) -> str:
    approvals = call.app.session(call.agent).approvals
    approvals.allow_all = not approvals.allow_all
    if approvals.allow_all:
        return "**Everything is allowed without asking** in this conversation; `/yolo` ends that."
    return "Dangerous calls are asked about again."


async def reload_mcp(call: CommandCall) -> str:
    lines = await call.app.mcp.reload(call.app.reread_variables)
    if not lines:
        return "There are no MCP servers: `hermes mcp add` adds one."
    kept = "This conversation keeps the tools it has; `/new` begins one that has the new ones."
    return "\n".join(f"- {line}" for line in lines) + f"\n\n{kept}"


async def reload(call: CommandCall) -> str:
    names = await asyncio.to_thread(call.app.reread_variables)
    if not names:
        return "The keys in .env are as they were. Settings are read when `hermes` starts."
    return f"Read again: {', '.join(f'`{name}`' for name in names)}"


# Commands that show what there is to know.


async def help_(call: CommandCall, may: Callable[[str], bool] = lambda _: True) -> str:
    """The list has what the user `may` use."""
    place, settings = call.talk.place, call.app.loaded.settings
    if call.arguments:
        found = resolve_command(call.words[0], place, settings)
        if found is None:
            raise UsageError(f"there is no command {call.words[0]!r}", hint="/help lists them")
        also = "".join(f", `/{alias}`" for alias in found.aliases)
        return f"`{_written(found)}`{also}\n\n{found.summary.capitalize()}."
    known = [each for each in commands_in(place, settings) if may(each.name)]
    parts: list[str] = []
    for group in CommandGroup:
        lines = [_line(each) for each in known if each.group is group]
        if lines:
            parts.append(f"**{group}**\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, *_more(call, may)])


def _line(command: CommandDef) -> str:
    also = f" (`/{'`, `/'.join(command.aliases)}`)" if command.aliases else ""
    return f"- `{_written(command)}`: {command.summary}{also}"


def _written(command: CommandDef) -> str:
    return f"/{command.name} {command.usage}".strip()


def _more(call: CommandCall, may: Callable[[str], bool]) -> Iterator[str]:
    """Commands of plugins and of the settings; skills have a list of their own."""
    named = {name: each.description for name, each in sorted(call.app.extensions.commands.items())}
    named |= dict.fromkeys(sorted(call.app.loaded.settings.quick_commands), "(your own)")
    lines = [f"- `/{name}` {about}".rstrip() for name, about in named.items() if may(name)]
    if lines:
        yield "**Your own**\n\n" + "\n".join(lines)
    if may("SKILL-NAME"):
        listed = resolve_command("skills", call.talk.place, call.app.loaded.settings)
        skills = "; `/skills` lists them." if listed else "."
        yield f"Each skill is a command too: `/SKILL-NAME …`{skills}"


async def status(call: CommandCall, waits: str = "") -> str:
    """`waits` says what the agent waits for in the middle of its work."""
    app, agent = call.app, call.agent
    info = await app.store.info(agent.session_id)
    session = app.session(agent)
    gauge = session.context_usage()
    asked = gauge.questions
    facts = {
        "Session": f"`{agent.session_id}`" + (f" “{info.title}”" if info.title else ""),
        "Model": f"{session.target.model} on {session.target.provider}",
        "Reasoning": agent.base_request.reasoning_effort or "up to the provider",
        "Conversation": f"{many(asked, 'question')}, {many(len(agent.history), 'message')}",
        "Context": context_text(gauge),
        "State": waits or ("working" if agent.running else "waiting for you"),
        "Folder": session.place.folder,
        "Approvals": "**everything is allowed**" if session.approvals.allow_all else "asked for",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def context_text(gauge: ContextUsage) -> str:
    if gauge.elsewhere:
        return f"{gauge.tokens:,} tokens; how many there may be is not known here"
    if not gauge.window:
        return f"{gauge.tokens:,} tokens"
    return f"{gauge.tokens:,} of {gauge.window:,} tokens ({gauge.share:.0%})"


async def usage(call: CommandCall) -> str:
    lines = await call.app.store.usage(call.agent.session_id)
    if not lines:
        return "No model was called yet."
    used = sum((line.usage for line in lines), Usage())
    calls, unpriced = sum(line.calls for line in lines), sum(line.unpriced_calls for line in lines)
    money = f"${sum(line.cost_usd for line in lines):.4f}"
    if unpriced:
        money += f", and {many(unpriced, 'call')} of unknown price"
    rows = [f"| {line.task} | {line.model} | {line.calls} | {line.usage.prompt:,} | "
            f"{line.usage.cache_read:,} | {line.usage.output:,} |" for line in lines]  # fmt: skip
    head = "| task | model | calls | input | cached | output |\n|---|---|--:|--:|--:|--:|"
    return (
        f"{head}\n" + "\n".join(rows) + f"\n\n{many(calls, 'call')}, cache hits {used.hits:.0%}, "
        f"cost {money}. Context: {context_text(call.app.session(call.agent).context_usage())}"
    )


async def toolsets(call: CommandCall) -> str:
    found = find_toolsets(call.app.loaded, call.app.session(call.agent).brought)
    lines = [
        f"- `{name}` {each.description}".rstrip()
        for name, each in sorted(found.known.items())
        if not name.startswith("hermes-")
    ]
    return "\n".join(lines) + "\n\n`/tools` shows which tools are on."


async def profile(call: CommandCall) -> str:
    home = call.app.home
    return f"Profile **{home.profile}** in `{home.display()}`"
