"""Commands about what is used in a conversation."""

import asyncio

import msgspec

from hermes.app import personalities
from hermes.app.commands.talk import Call
from hermes.app.model_choice import asked_for, save_choice
from hermes.core.errors import UsageError
from hermes.providers import Target

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
GLOBAL = "--global"
FAST: dict[str, dict[str, object]] = {
    "openai": {"service_tier": "priority"},
    "openai-codex": {"service_tier": "priority"},
}
"""What asks a provider for faster answers, at a higher price."""


async def model(call: Call) -> str:
    session, words = call.app.session(call.agent), call.words
    lasting = GLOBAL in words
    wanted = " ".join(word for word in words if word != GLOBAL)
    if session.start.request.remote is not None:
        return f"Here answers {session.target.provider}, which chooses its model itself."
    if not wanted:
        how = f"`/model [PROVIDER:]MODEL` changes it for this conversation, `{GLOBAL}` for good."
        return f"{_named(session.target)}\n\n{how}"
    providers = call.app.providers
    choice = asked_for(wanted, call.app.loaded, session.target)
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


async def reasoning(call: Call) -> str:
    wanted = call.arguments.lower()
    effort = call.agent.base_request.reasoning_effort
    if not wanted:
        return f"Reasoning effort: {effort}. `/reasoning {' | '.join(EFFORTS)}` changes it."
    if wanted not in EFFORTS:
        raise UsageError(f"{wanted!r} is no effort", hint=", ".join(EFFORTS))
    call.agent.base_request = msgspec.structs.replace(
        call.agent.base_request, reasoning_effort=wanted
    )
    return f"Reasoning effort from now on: {wanted}"


async def fast(call: Call) -> str:
    session, wanted = call.app.session(call.agent), call.arguments.lower()
    body = session.target.profile.extra_body
    more = FAST.get(session.target.provider)
    if wanted in ("", "status"):
        return f"Answers: {'fast' if more and more.items() <= body.items() else 'normal'}"
    if wanted not in ("fast", "normal"):
        raise UsageError(f"{wanted!r} is no speed", hint="/fast [normal | fast | status]")
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


async def personality(call: Call) -> str:
    settings = call.app.loaded.settings
    if not call.arguments:
        known = ", ".join(personalities.names(settings))
        return f"Personalities: {known}, {personalities.NONE}. `/personality NAME` chooses one."
    call.agent.extra_system_prompt = personalities.manner(call.arguments, settings)
    if not call.agent.extra_system_prompt:
        return "No personality from now on."
    return f"From now on: {call.arguments.lower()}."


async def yolo(call: Call) -> str:
    approvals = call.app.session(call.agent).approvals
    approvals.allow_all = not approvals.allow_all
    if approvals.allow_all:
        return "**Everything is allowed without asking** in this conversation; `/yolo` ends that."
    return "Dangerous calls are asked about again."


async def reload_mcp(call: Call) -> str:
    lines = await call.app.mcp.reload(call.app.reread_variables)
    if not lines:
        return "There are no MCP servers: `hermes mcp add` adds one."
    kept = "This conversation keeps the tools it has; `/new` begins one that has the new ones."
    return "\n".join(f"- {line}" for line in lines) + f"\n\n{kept}"


async def reload(call: Call) -> str:
    names = await asyncio.to_thread(call.app.reread_variables)
    if not names:
        return "The keys in .env are as they were. Settings are read when `hermes` starts."
    return f"Read again: {', '.join(f'`{name}`' for name in names)}"
