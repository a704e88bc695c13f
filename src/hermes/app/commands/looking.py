"""Commands that show what there is to know."""

from collections.abc import Callable, Iterator

from hermes.app.commands.registry import CommandDef, Group, commands_in, resolve_command
from hermes.app.commands.talk import Call
from hermes.app.gauge import Gauge, gauge_of
from hermes.app.tools import find_toolsets
from hermes.core.errors import UsageError
from hermes.core.usage import Usage
from hermes.util.text import many


def _everything(_command: str) -> bool:
    return True


async def help_(call: Call, may: Callable[[str], bool] = _everything) -> str:
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
    for group in Group:
        lines = [_line(each) for each in known if each.group is group]
        if lines:
            parts.append(f"**{group}**\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, *_more(call, may)])


def _line(command: CommandDef) -> str:
    also = f" (`/{'`, `/'.join(command.aliases)}`)" if command.aliases else ""
    return f"- `{_written(command)}`: {command.summary}{also}"


def _written(command: CommandDef) -> str:
    return f"/{command.name} {command.usage}".strip()


def _more(call: Call, may: Callable[[str], bool]) -> Iterator[str]:
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


async def status(call: Call, waits: str = "") -> str:
    """`waits` says what the agent waits for in the middle of its work."""
    app, agent = call.app, call.agent
    info = await app.store.info(agent.session_id)
    session = app.session(agent)
    gauge = gauge_of(session)
    asked = gauge.questions
    facts = {
        "Session": f"`{agent.session_id}`" + (f" “{info.title}”" if info.title else ""),
        "Model": f"{session.target.model} on {session.target.provider}",
        "Reasoning": agent.base_request.reasoning_effort or "up to the provider",
        "Conversation": f"{many(asked, 'question')}, {many(len(agent.history), 'message')}",
        "Context": context_text(gauge),
        "State": waits or ("working" if agent.running else "waiting for you"),
        "Folder": session.place.folder,
        "Consent": "**everything is allowed**" if session.approvals.allow_all else "asked for",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def context_text(gauge: Gauge) -> str:
    if gauge.elsewhere:
        return f"{gauge.tokens:,} tokens; how many there may be is not known here"
    if not gauge.window:
        return f"{gauge.tokens:,} tokens"
    return f"{gauge.tokens:,} of {gauge.window:,} tokens ({gauge.share:.0%})"


async def usage(call: Call) -> str:
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
        f"cost {money}. Context: {context_text(gauge_of(call.app.session(call.agent)))}"
    )


async def toolsets(call: Call) -> str:
    found = find_toolsets(call.app.loaded, call.app.session(call.agent).start.brought)
    lines = [
        f"- `{name}` {each.description}".rstrip()
        for name, each in sorted(found.known.items())
        if not name.startswith("hermes-")
    ]
    return "\n".join(lines) + "\n\n`/tools` shows which tools are on."


async def profile(call: Call) -> str:
    home = call.app.home
    return f"Profile **{home.profile}** in `{home.display()}`"
