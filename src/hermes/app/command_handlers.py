"""The slash commands that every surface has, and `Commands`, which finds and runs a command."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from hermes.agent import Agent
from hermes.app import prompting
from hermes.app.app import App, shorten_goal
from hermes.app.build import ContextUsage
from hermes.app.commands import (
    CommandCall,
    CommandContext,
    CommandDef,
    CommandGroup,
    CommandHandler,
    Surface,
    command_by_prefix,
    commands_in,
    exact_command,
    resolve_command,
    suggest_command,
)
from hermes.app.extensions import SlashCommand
from hermes.app.model_choice import parse_choice, save_choice
from hermes.app.project_commands import add_dir, commit, diff, init, review
from hermes.app.prompt_commands import (
    PromptCommand,
    SeenCommands,
    fill_arguments,
    find_prompt_commands,
)
from hermes.app.references import fenced_text
from hermes.app.tools import find_toolsets
from hermes.config.environment import child_environment
from hermes.config.home import tilde
from hermes.config.settings import QuickCommand
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Compacted
from hermes.core.messages import Assistant, User
from hermes.core.model import Usage
from hermes.providers import LOCAL, ModelChoice, Target
from hermes.security import Flow, describe_rule
from hermes.skills import hidden_command_reason, skill_commands
from hermes.store import (
    HIDDEN_SOURCES,
    MATCH_NOTES,
    SearchRequest,
    SessionFilter,
    repair_history,
)
from hermes.terminal import ProcessState
from hermes.tools import PERMISSION_MODES, checkpoints, suggest_words
from hermes.util.concurrency import in_thread
from hermes.util.processes import run_program
from hermes.util.text import clean, many, new_session_id, plain_line

GOOGLE_LOGIN = "google-gemini-cli"  #: The provider whose quota /gquota shows.


# Commands about the conversation itself.


async def new(call: CommandCall) -> str:
    agent = await call.app.renew(call.agent, call.talk.continue_with)
    return f"A new conversation: session `{agent.session_id}`"


async def retry(call: CommandCall) -> str:
    asked = _last_user_message(call)
    await take_back(call.app, call.agent, 1)
    await call.talk.ask(User(asked.said))
    return ""


async def undo(call: CommandCall) -> str:
    count = call.arguments or "1"
    if not count.isdecimal() or not int(count):
        raise UsageError(f"{count!r} is not a number", hint="/undo [N]")
    _last_user_message(call)
    text = undo_message(call, await take_back(call.app, call.agent, int(count)))
    auto = call.app.session(call.agent).auto_commit
    left = sum(isinstance(message, User) for message in call.agent.history)
    made = [commit for number, commit in (auto.commits if auto else {}).items() if number > left]
    if not made:
        return text
    commits, revert = ", ".join(f"`{each}`" for each in made), " ".join(reversed(made))
    return f"{text}\n\nThe files stay as committed in {commits}; `git revert {revert}` undoes that."


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
    before = call.agent.session_id
    event = await call.agent.compress(call.arguments)
    if not isinstance(event, Compacted):
        return getattr(event, "text", "")
    saved = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
    if event.session_id == before:
        return f"Shortened tool results: {saved}"
    return f"Compacted: {saved}, now session `{event.session_id}`"


async def rollback(call: CommandCall) -> str:
    session_tools = call.app.session(call.agent).session_tools
    if not session_tools.has_checkpoints:
        raise UsageError(
            "there are no checkpoints here",
            hint="they need checkpoints.enabled and files on this machine",
        )
    session = call.agent.session_id
    # After a compaction or a branch, the turns before it count too.
    before = [each.id for each in await call.app.store.ancestors(session)]
    return await checkpoints.rollback(session_tools.checkpoints, call.arguments, (session, *before))


async def stop(call: CommandCall, already_stopped: int = 0) -> str:
    """Stop the turn, or else all background work.

    `already_stopped` is the number of tasks that the caller stopped before.
    """
    if call.agent.interrupt():
        return ""
    count = already_stopped + await call.app.background.stop(call.agent)
    count += call.app.session(call.agent).subagents.stop_background()
    processes = call.app.session(call.agent).session_tools.processes
    for process in _running(call):
        await processes.kill(process.id)
        count += 1
    return stopped_message(count)


def stopped_message(count: int) -> str:
    return f"Stopped {many(count, 'background task')}." if count else "Nothing is running."


def _required(call: CommandCall, problem: str, hint: str) -> str:
    """Return the arguments. Raises `UsageError` if there are none."""
    if not call.arguments:
        raise UsageError(problem, hint=hint)
    return call.arguments


async def queue(call: CommandCall) -> str:
    call.talk.later(_required(call, "nothing to keep", "/queue MESSAGE"))
    return "Kept for after this turn." if call.talk.busy else ""


async def steer(call: CommandCall) -> str:
    text = _required(call, "nothing to say", "/steer MESSAGE")
    if call.agent.steer(text):
        return "The agent hears it after its next step."
    await call.talk.ask(User.say(text))
    return ""


async def resume(call: CommandCall) -> str:
    hint = "/resume ID or TITLE; /sessions lists them"
    found = await call.app.store.resolve(_required(call, "which conversation?", hint))
    if found.id == call.agent.session_id:
        return "You are in this conversation."
    await call.app.move(call.agent, found.id, call.talk.continue_with)
    return f"Back in {found.title or found.id}."


MAX_SESSIONS = 20


async def search_sessions(call: CommandCall) -> str:
    """List the sessions with the words in their title, then those with them in a message."""
    store, words = call.app.store, call.arguments
    which = SessionFilter(exclude_sources=HIDDEN_SOURCES, title=words, limit=MAX_SESSIONS)
    titled = await store.sessions(which)
    request = SearchRequest(
        words, exclude_sources=HIDDEN_SOURCES, limit=MAX_SESSIONS, tolerant=True
    )
    models = call.app.session(call.agent).auxiliary
    settings = call.app.loaded.settings.auxiliary.session_search
    hits = await store.search(request, partial(suggest_words, models, settings))
    found = {each.id: f"- `{each.id}` **{each.title}**" for each in titled}
    for hit in hits:
        text = shorten_goal(hit.snippet.replace(">>>", "").replace("<<<", ""))
        found.setdefault(hit.session_id, f"- `{hit.session_id}` {hit.title}: {text}")
    if not found:
        return f"No session has {words!r} in its title or messages. Try other or fewer words."
    note = [] if titled or hits[0].match == "exact" else [MATCH_NOTES[hits[0].match], ""]
    return "\n".join([*note, *found.values(), "", "`/resume ID or TITLE` continues one."])


async def branch(call: CommandCall) -> str:
    store, old = call.app.store, call.agent.session_id
    if not call.agent.history:
        raise UsageError("there is nothing to branch from yet")
    session = new_session_id(call.app.clock.now())
    await store.branch(old, session)
    return await into_branch(call, old, session)


async def into_branch(call: CommandCall, old: str, session: str) -> str:
    """Switch the conversation to `session`, a copy of `old`."""
    if call.arguments:
        await call.app.store.set_title(session, call.arguments)
    if call.agent.session_id != session:
        await call.app.move(call.agent, session, call.talk.continue_with)
    return f"This is a copy now: session `{session}`. `/resume {old}` goes back."


async def background(call: CommandCall) -> str:
    goal = _required(call, "what is to be done?", "/background TASK")
    request = call.app.session(call.agent).request
    task = call.app.background.start(call.agent, request, goal, call.talk.show)
    return f"Started `{task}`; its answer comes here. `/agents` shows what runs."


async def agents(call: CommandCall) -> str:
    return format_background(list_background(call))


def list_background(call: CommandCall) -> list[str]:
    """Return one line for each background task, subagent and process."""
    tasks = call.app.background.lines(call.agent)
    subagents = call.app.session(call.agent).subagents.background()
    tasks += [f"`{name}` {shorten_goal(goal)} ({age:.0f} s)" for name, goal, age in subagents]
    return [*tasks, *(f"`{each.id}` {shorten_goal(each.command)}" for each in _running(call))]


def format_background(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing runs in the background."


async def btw(call: CommandCall) -> str:
    question = _required(call, "what do you want to know?", "/btw QUESTION")
    return await call.app.session(call.agent).reviewer.answer_aside(call.agent, question)


def _last_user_message(call: CommandCall) -> User:
    asked = [message for message in call.agent.history if isinstance(message, User)]
    if not asked:
        raise UsageError("nothing was asked yet")
    if call.agent.running:
        raise UsageError("a turn is running", hint="/stop ends it")
    return asked[-1]


async def take_back(app: App, agent: Agent, turns: int) -> str:
    """Undo the last turns; return the text of the first question that was undone."""
    store = app.store
    text = await store.undo(agent.session_id, turns)
    stored = await store.messages(agent.session_id)
    # The messages of the agent are preferred to the stored ones: they include the context that was
    # added when they were sent, so that the prompt cache still applies.
    left = agent.history[: len(stored)]
    same = list(map(type, left)) == list(map(type, stored))
    agent.rewrite(left if same else repair_history(stored))
    return text


def _running(call: CommandCall) -> list[ProcessState]:
    processes = call.app.session(call.agent).session_tools.processes
    return [each for each in processes.list() if each.state == "running"]


# Commands about the model, the tools and the settings of a conversation.

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
GLOBAL = "--global"
FAST: dict[str, dict[str, object]] = {
    "openai": {"service_tier": "priority"},
    "openai-codex": {"service_tier": "priority"},
}
"""Request fields for faster answers at a higher price, by provider."""


async def model(call: CommandCall) -> str:
    session, words = call.app.session(call.agent), call.words
    lasting = GLOBAL in words  # the choice is saved in config.yaml
    wanted = " ".join(word for word in words if word != GLOBAL)
    if session.request.remote is not None:
        return f"Here answers {session.target.provider}, which chooses its model itself."
    if not wanted:
        how = f"`/model [PROVIDER:]MODEL` changes it for this conversation, `{GLOBAL}` for good."
        return f"{_describe_target(session.target)}\n\n{how}"
    providers = call.app.providers
    choice = parse_choice(wanted, call.app.loaded, session.target)
    if choice.model == wanted:
        await _check_listed(call.app, choice)
    target = await providers.ready(choice)
    await session.switch(target)
    if lasting:
        await asyncio.to_thread(save_choice, call.app.home, choice, target)
    doubt = providers.doubt(target)
    also = ", also in new conversations" if lasting else ""
    answer = f"From now on: {_describe_target(target)}{also}"
    return f"{answer}\n\n{doubt}" if doubt else answer


async def _check_listed(app: App, choice: ModelChoice) -> None:
    """Raise `UsageError` for `word:name` if `word` is not a provider and the endpoint does not
    list such a model. Names with a slash (`maker/model:free`) are not checked."""
    head, colon, _ = choice.model.partition(":")
    if not colon or "/" in head:
        return
    providers = app.providers
    target = providers.known_target(choice)
    await providers.learn(target)
    listed = providers.known.cached_list(target.base_url)
    if listed is None or listed.find(choice.model) is None:
        raise UsageError(
            f"{head!r} is not a provider, and {target.provider} does not list {choice.model}",
            hint=f"to use that name anyway: /model {target.provider}:{choice.model}",
        )


def _describe_target(target: Target) -> str:
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
    text = call.agent.extra_system_prompt = prompting.personality_text(call.arguments, settings)
    return f"From now on: {call.arguments.lower()}." if text else "No personality from now on."


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


# Commands that show something.


async def help_(call: CommandCall, may: Callable[[str], bool] = lambda _: True) -> str:
    """List the commands that the user `may` use, or explain one."""
    place, settings = call.talk.place, call.app.loaded.settings
    if call.arguments:
        found = resolve_command(call.words[0], place, settings)
        if found is None and place is Surface.TERMINAL:  # a chat may have no agent yet
            skills = call.app.session(call.agent).skills
            commands = await in_thread(
                lambda: skill_commands(skills.catalog.skills.entries(), skills.context)
            )
            name = call.words[0].removeprefix("/").lower()
            if name in commands:
                return f"`/{name}` calls a skill: {commands[name]}"
        if found is None:
            raise UsageError(f"there is no command {call.words[0]!r}", hint="/help lists them")
        also = "".join(f", `/{alias}`" for alias in found.aliases)
        return f"`{_syntax(found)}`{also}\n\n{found.summary.capitalize()}."
    parts: list[str] = []
    for group in CommandGroup:
        lines = [
            f"- `{_syntax(each)}`: {each.summary}"
            + (f" (`/{'`, `/'.join(each.aliases)}`)" if each.aliases else "")
            for each in commands_in(place, settings)
            if each.group is group and may(each.name)
        ]
        if lines:
            parts.append(f"**{group}**\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, *[part async for part in _more_help(call, may)]])


def _syntax(command: CommandDef) -> str:
    return f"/{command.name} {command.usage}".strip()


async def _more_help(call: CommandCall, may: Callable[[str], bool]) -> AsyncIterator[str]:
    """Yield the commands of plugins, of the settings and of Markdown files, and a line about
    skills."""
    named = {name: each.description for name, each in sorted(call.app.extensions.commands.items())}
    named |= dict.fromkeys(sorted(call.app.loaded.settings.quick_commands), "(your own)")
    lines = [f"- `/{name}` {about}".rstrip() for name, about in named.items() if may(name)]
    lines += [
        f"- `{f'/{name} {each.argument_hint}'.strip()}`: {each.description} ({each.source})"
        for name, each in sorted((await prompt_commands(call.talk)).items())
        if may(name)
    ]
    if lines:
        yield "**Your own**\n\n" + "\n".join(lines)
    if may("SKILL-NAME"):
        listed = resolve_command("skills", call.talk.place, call.app.loaded.settings)
        skills = "; `/skills` lists them." if listed else "."
        yield f"Each skill is a command too: `/SKILL-NAME …`{skills}"


async def status(call: CommandCall, waits: str = "") -> str:
    """`waits` says what the agent waits for during a turn."""
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
        "Approvals": "**off**: everything is allowed" if session.approvals.allow_all else "ask",
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
        asked = any(isinstance(message, User) for message in call.agent.history)
        return f"No model {'call was completed' if asked else 'was called'} yet."
    used = sum((line.usage for line in lines), Usage())
    calls, unpriced = sum(line.calls for line in lines), sum(line.unpriced_calls for line in lines)
    money = f"${sum(line.cost_usd for line in lines):.4f}"
    if unpriced:
        money += f", and {many(unpriced, 'call')} of unknown price"
    if unpriced == calls:
        money = "unknown (`providers.ID.models.NAME.price` sets it)"
    rows = [f"| {line.task} | {line.model} | {line.calls} | {line.usage.prompt:,} | "
            f"{line.usage.cache_read:,} | {line.usage.output:,} |" for line in lines]  # fmt: skip
    is_local = all(line.provider == LOCAL for line in lines)
    cost = "local, no cost" if is_local else f"cost {money}"
    head = "| task | model | calls | input | cached | output |\n|---|---|--:|--:|--:|--:|"
    return (
        f"{head}\n" + "\n".join(rows) + f"\n\n{many(calls, 'call')}, cache hits {used.hits:.0%}, "
        f"{cost}. Context: {context_text(call.app.session(call.agent).context_usage())}"
    )


BAR_CELLS = 20


def _bar(share: float) -> str:
    """Return a bar of blocks, with eighths of a block at its end."""
    full, eighths = divmod(round(share * BAR_CELLS * 8), 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[eighths].strip()


async def context(call: CommandCall) -> str:
    session = call.app.session(call.agent)
    gauge, parts = session.context_usage(), await in_thread(session.request_parts)
    used = sum(parts.values()) or 1
    whole = gauge.window or used
    rows = [
        f"| {name} | {tokens:,} | {tokens / whole:.1%} | {_bar(tokens / used)} |"
        for name, tokens in parts.items()
    ]
    if gauge.window:
        free = max(0, gauge.window - used)
        rows.append(f"| free | {free:,} | {free / whole:.1%} | |")
    counted = any(isinstance(message, Assistant) for message in call.agent.history)
    notes = ["Estimated: nothing was sent yet."]
    if counted:
        notes = [
            "The total is the last count of the provider, plus an estimate of what came after."
        ]
    if session.target.profile.small:
        notes.append("A small model is sent a shortened form of this.")
    head = f"**{gauge.model}** on {gauge.provider}: {context_text(gauge)}"
    table = "\n".join(("| part | tokens | window | request |", "|---|--:|--:|---|", *rows))
    return f"{head}\n\n{table}\n\n{' '.join(notes)} `/compress` makes room."


async def mcp(call: CommandCall) -> str:
    servers = call.app.loaded.settings.mcp_servers
    if not servers:
        return "There are no MCP servers: `hermes mcp add` adds one."
    status = {each.name: each for each in call.app.mcp.status()}
    brought = call.app.session(call.agent).brought
    lines: list[str] = []
    for name in sorted(servers):
        tools = [f"`{tool.name}`" for tool in brought if tool.toolset == f"mcp-{name}"]
        found = status.get(name)
        state = "switched off" if not servers[name].enabled else "not started"
        if found is not None:
            state = f"{found.state} ({found.transport})" if found.transport else found.state
        error = f": {plain_line(found.error)}" if found and found.error else ""
        lines.append(f"- **{name}** {state}{error}; {many(len(tools), 'tool')} here")
        lines += [f"  - {', '.join(tools)}"] if tools else []
    return "\n".join([*lines, "", "`/reload-mcp` restarts them."])


MODES = {
    "manual": "ask before dangerous calls",
    "smart": "a model judges dangerous calls, and asks when it is not sure",
    "off": "everything is allowed",
    "deny": "dangerous calls are refused",
}


async def permissions(call: CommandCall) -> str:
    session, settings = call.app.session(call.agent), call.app.loaded.settings.approvals
    if call.arguments:
        wanted = call.arguments.lower().replace(" ", "-")
        if call.talk.place is not Surface.TERMINAL:
            raise UsageError("the permission mode can only be changed at the terminal")
        if wanted not in PERMISSION_MODES:
            raise UsageError(f"{wanted!r} is not a mode", hint=", ".join(PERMISSION_MODES))
        session.approvals.set_permission_mode(wanted)
        return f"Permission mode: **{wanted}**: {PERMISSION_MODES[wanted]}."
    current = session.approvals.permission_mode
    mode = "off" if session.approvals.allow_all else settings.mode
    lines = [
        f"- Permission mode: **{current}**: {PERMISSION_MODES[current]}",
        f"- Dangerous calls: {mode}: {MODES[mode]}",
    ]
    folders = ", ".join(f"`{tilde(each)}`" for each in session.place.guard.workspace)
    lines.append(f"- Workspace, where files are changed without asking: {folders}")
    lines += [f"- `{name}`: {rule}" for name, rule in sorted(settings.effects.items())]
    rules = [f"- Allowed: {describe_rule(rule)}" for rule in session.approvals.allowed]
    change = (
        f"`/permissions {' | '.join(PERMISSION_MODES)}` or Shift-Tab changes the mode;"
        " `hermes approvals` lists and removes rules; `/yolo` allows everything here."
    )
    return "\n".join([*lines, *rules, "", change])


async def toolsets(call: CommandCall) -> str:
    found = find_toolsets(call.app.loaded, call.app.session(call.agent).brought)
    lines = [
        f"- `{name}` {each.description}".rstrip()
        for name, each in sorted(found.known.items())
        if not name.startswith("hermes-")
    ]
    return "\n".join(lines) + "\n\n`/tools` shows which tools are on."


async def gquota(call: CommandCall) -> str:
    providers = call.app.providers
    endpoint = providers.resolver.endpoint(GOOGLE_LOGIN)
    credentials = providers.keyring.credentials(endpoint)
    if not credentials:
        return (
            "There is no Google login, so there is no quota to show. Log in with the Gemini CLI"
            f" (run `gemini` once), or with `hermes auth add {GOOGLE_LOGIN} --type oauth`."
        )
    left = await providers.keyring.pool(endpoint, credentials).quota()
    if not left:
        return "Google reports no limits for this login."
    rows = [f"| {plain_line(each.model)} | {each.left:.0%} | {each.resets} |" for each in left]
    return "\n".join(["| model | left | resets |", "|---|---|---|", *rows])


async def profile(call: CommandCall) -> str:
    home = call.app.home
    return f"Profile **{home.profile}** in `{home.display()}`"


# Finding and running commands.

HANDLERS: dict[str, CommandHandler] = {
    handler.__name__.rstrip("_").replace("_", "-"): handler
    for handler in (
        new, retry, undo, title, compress, rollback, stop, queue, steer, resume, branch, background,
        agents, btw, model, reasoning, personality, fast, yolo, reload, reload_mcp, help_, status,
        usage, profile, gquota, toolsets, context, mcp, permissions, diff, init, review, commit,
        add_dir,
    )
}  # fmt: skip
"""Handlers by the name of the command. A surface adds its own and `OPS_HANDLERS`."""

QUICK_TIMEOUT = 30.0
MAX_OUTPUT = 20_000

FoundCommand = CommandDef | SlashCommand | QuickCommand | PromptCommand | str | User
"""A command of Hermes, of a plugin, of the settings or of a Markdown file; text for the agent; or
the message of a skill."""


class Commands:
    """Finds and runs the commands of one conversation."""

    def __init__(
        self, talk: CommandContext, own: Mapping[str, CommandHandler] | None = None
    ) -> None:
        """`own` are handlers of the surface, which replace shared ones."""
        self._talk = talk
        self._handlers = {**HANDLERS, **(own or {})}

    async def find(self, text: str) -> FoundCommand | None:
        """Return what a line that begins with `/` calls. Names win over beginnings of names."""
        name = text.split(None, 1)[0].lower()
        place, settings = self._talk.place, self._talk.app.loaded.settings
        return (
            exact_command(name, place, settings)
            or self._talk.app.extensions.commands.get(name.removeprefix("/"))
            or _quick_command(settings.quick_commands.get(name.removeprefix("/")))
            or (await prompt_commands(self._talk)).get(name.removeprefix("/"))
            or await self._talk.app.skill_message(self._talk.agent, text)
            or command_by_prefix(name, place, settings)
        )

    async def run(self, text: str) -> bool:
        """Run the command and show its answer or its failure. Return False if it is a message.

        During a turn, a command that has to wait is queued until the turn has ended.
        """
        arguments = text.partition(" ")[2].strip()
        try:
            found = await self.find(text)
            if found is None:
                word = text.split(None, 1)[0]
                # `/etc/hosts is empty` and `//` are messages, not commands.
                if "/" in word[1:] or not word[1:2].isalpha():
                    return False
                self._talk.show(await self._explain_unknown(text, word))
                return True
            if self._talk.busy and not (isinstance(found, CommandDef) and found.at_once):
                self._talk.later(text)
                self._talk.show(f"`{text.split()[0]}` comes after this turn; `/stop` ends it.")
                return True
            answer = await self.do(found, arguments)
        except HermesError as error:
            answer = f"{error}\n\n{error.hint}" if error.hint else str(error)
        if answer.strip():
            self._talk.show(answer)
        return True

    async def do(self, found: FoundCommand, arguments: str) -> str:
        """Run a command and return its answer."""
        match found:
            case CommandDef():
                handler = self._handlers.get(found.name)
                if handler is None:
                    raise UsageError(f"/{found.name} does nothing here")
                return await handler(CommandCall(found, arguments, self._talk))
            case SlashCommand():
                return str(await found.handler(arguments) or "")
            case QuickCommand():
                return await run_quick_command(found.command)
            case PromptCommand():
                return await self._send_prompt(found, arguments)
            case str():
                await self._talk.ask(User.say(fill_arguments(found, arguments)))
            case User():
                await self._talk.ask(found)
        return ""

    async def _send_prompt(self, command: PromptCommand, arguments: str) -> str:
        """Send the text of a Markdown file. That of a project is shown first, each version once."""
        talk = self._talk
        session = talk.app.session(talk.agent)
        if command.is_project and await in_thread(SeenCommands(talk.app.home).add, command):
            again = f"Check it, then enter `/{command.name}` again to send it."
            head = f"`/{command.name}` is a command of this project (`{command.source}`):"
            return f"{head}\n\n{fenced_text(command.text, '.md')}\n\n{again}"
        if command.is_project:
            session.egress.exposure.add(Flow(untrusted=(f"the command {command.source}",)))
        if command.ignored:
            talk.show(f"Ignored in `{command.source}`: {', '.join(command.ignored)}.")
        message = User.say(fill_arguments(command.text, arguments))
        if not command.model:
            await talk.ask(message)
            return ""
        before = session.target
        try:
            # A chat runs the turn later, and a project does not choose who gets the data.
            if command.is_project or talk.place is Surface.CHATS:
                raise UsageError("only your own commands can choose a model, in a terminal")
            choice = parse_choice(command.model, talk.app.loaded, before)
            if choice.model == command.model:
                await _check_listed(talk.app, choice)
            await session.switch(await talk.app.providers.ready(choice))
        except HermesError as error:
            talk.show(f"Not with the model `{command.model}`: {error}.")
        try:
            await talk.ask(message)
        finally:
            await session.switch(before)
        return ""

    async def _explain_unknown(self, text: str, word: str) -> str:
        skills = self._talk.app.session(self._talk.agent).skills
        reason = await in_thread(hidden_command_reason, text, skills.catalog.skills, skills.context)
        known = commands_in(self._talk.place, self._talk.app.loaded.settings)
        app = self._talk.app
        prompts = await prompt_commands(self._talk)
        others = (*app.extensions.commands, *app.loaded.settings.quick_commands, *prompts)
        close = suggest_command(word, known, others)
        meant = f" Did you mean `/{close}`?" if close else ""
        return reason or f"There is no command `{word}`.{meant} `/help` lists them."


async def prompt_commands(talk: CommandContext) -> dict[str, PromptCommand]:
    """Return the Markdown files that are commands here. Chats have only those of the home."""
    folder = None
    if talk.place is Surface.TERMINAL:  # a chat may have no agent yet
        place = talk.app.session(talk.agent).place
        folder = Path(place.folder) if place.here else None
    found = await in_thread(find_prompt_commands, talk.app.home, folder)
    return {name: each for name, each in found.items() if not exact_command(name, talk.place)}


def _quick_command(found: str | QuickCommand | None) -> str | QuickCommand | None:
    is_prompt = isinstance(found, QuickCommand) and found.type == "prompt"
    return found.command if is_prompt and isinstance(found, QuickCommand) else found


async def run_quick_command(command: str) -> str:
    """Run a shell command of the settings and return its output as Markdown."""
    shell = ("/bin/sh", "-c", f"exec 2>&1\n{command}")  # errors in the order of the output
    try:
        done = await run_program(*shell, seconds=QUICK_TIMEOUT, env=child_environment())
    except TimeoutError:
        raise UsageError(f"the command took more than {QUICK_TIMEOUT:.0f} seconds") from None
    text = clean(done.output.decode(errors="replace")).strip()
    shown = text if len(text) <= MAX_OUTPUT else f"{text[:MAX_OUTPUT]}\n…"
    ended = f"\n\nexit code {done.code}" if done.code else ""
    return f"```\n{shown}\n```{ended}" if shown else f"no output{ended}"
