"""Lists from which the user chooses the argument of a slash command: sessions, models, skins and
checkpoints.

Each function returns the chosen argument, None if the user cancels, and "" if there is no choice.
"""

import time
from pathlib import Path

from hermes.app import CommandCall, ModelFilter
from hermes.core.ports import SessionInfo
from hermes.providers.catalog import ModelFacts
from hermes.store import HIDDEN_SOURCES, SearchRequest, SessionFilter
from hermes.tui.picker import PickerItem, pick, preview_columns
from hermes.tui.plain import recap
from hermes.tui.skins import DisplayState, find_skin, skin_names
from hermes.tui.text import Paint, one_line
from hermes.tui.tool_view import unified_diff_rows
from hermes.util.text import human_duration, many

MAX_SESSIONS = 200
MAX_LABEL_COLUMNS = 70
PREVIEW_EXCHANGES = 4


async def choose_session(call: CommandCall, display: DisplayState, columns: int) -> str | None:
    store, paint = call.app.store, display.paint
    which = SessionFilter(exclude_sources=HIDDEN_SOURCES, newest_only=True, limit=MAX_SESSIONS)
    known = await store.sessions(which)
    items = [_session_item(each) for each in known if _is_offered(each, call)]
    if not items:
        return ""

    async def preview(session: str) -> str:
        symbol = display.skin.branding.prompt_symbol
        messages = await store.messages(session)
        room = preview_columns(columns)
        return "\n".join(recap(messages, paint, room, symbol, PREVIEW_EXCHANGES))

    async def search(words: str) -> list[PickerItem[str]]:
        request = SearchRequest(words, exclude_sources=HIDDEN_SOURCES, limit=50, tolerant=True)
        ids = dict.fromkeys(hit.session_id for hit in await store.search(request))
        found = [await store.info(each) for each in ids]
        return [_session_item(each) for each in found if _is_offered(each, call)]

    return await pick("Continue a conversation", items, preview=preview, search=search, paint=paint)


def _is_offered(info: SessionInfo, call: CommandCall) -> bool:
    return bool(info.message_count) and info.id != call.agent.session_id


def _session_item(info: SessionInfo) -> PickerItem[str]:
    age = f"{human_duration(time.time() - info.last_active)} ago"
    detail = f"{age}, {many(info.message_count, 'message')}"
    return PickerItem(one_line(info.title or info.preview, MAX_LABEL_COLUMNS), detail, info.id)


async def choose_model(call: CommandCall, display: DisplayState) -> str | None:
    """Offer the models of the current provider, aliases, and the other providers with a key."""
    session, providers = call.app.session(call.agent), call.app.providers
    target, aliases = session.target, call.app.loaded.settings.model_aliases
    listed = await providers.lister.models(target, ModelFilter(), in_use=target.model)
    facts = {f"{target.provider}:{each.facts.id}": each.facts for each in listed.models}
    items = [
        PickerItem(each.id, f"{each.context_length:,} tokens" if each.context_length else "", name)
        for name, each in facts.items()
    ]
    items += [PickerItem(name, "an alias", name) for name in aliases]
    others = [name for name in providers.lister.with_keys() if name != target.provider]
    items += [PickerItem(name, "provider, with its usual model", name) for name in others]
    if len(items) < 2:
        return ""

    def preview(name: str) -> str:
        return _describe_model(facts[name]) if name in facts else str(aliases.get(name, ""))

    title = f"Choose a model; now {target.model} on {target.provider}"
    current = f"{target.provider}:{target.model}"
    return await pick(title, items, preview=preview, selected=current, paint=display.paint)


def _describe_model(facts: ModelFacts) -> str:
    length, price = facts.context_length, facts.price
    known = {
        "name": facts.label,
        "context": f"{length:,} tokens" if length else None,
        "price": f"${price.input:g} in, ${price.output:g} out per million tokens"
        if price
        else None,
        "images": facts.images,
        "tools": facts.tools,
        "reasoning": facts.reasoning,
    }
    words = {True: "yes", False: "no", None: "unknown"}
    lines = [
        f"{name}: {words[value] if value is None or isinstance(value, bool) else value}"
        for name, value in known.items()
    ]
    return "\n".join((facts.id, "", *lines))


async def choose_skin(display: DisplayState, folder: Path) -> str | None:
    items = [PickerItem(name, "", name) for name in skin_names(folder)]

    def preview(name: str) -> str:
        skin = find_skin(name, folder)
        paint = Paint(skin.colors, display.paint.depth)
        symbol, asked = skin.branding.prompt_symbol, "what is in the folder?"
        lines = (
            skin.description,
            "",
            f"{paint('prompt', symbol)} {paint('user', asked)}",
            "",
            f"{paint('accent', skin.tool_prefix)} {paint('strong', 'terminal')} ls",
            f"  {paint('added', '+ a new line')}",
            f"  {paint('removed', '- an old line')}",
            f"The folder has {paint('code', 'README.md')} and {paint('link', 'a link')}.",
            f"{paint('warn', 'a warning')}  {paint('error', 'an error')}  {paint('dim', 'a hint')}",
        )
        return "\n".join(lines)

    now = display.skin.name
    return await pick("Choose a skin", items, preview=preview, selected=now, paint=display.paint)


async def choose_checkpoint(call: CommandCall, display: DisplayState, columns: int) -> str | None:
    """Offer the turns of this session that changed files."""
    checkpoints = call.app.session(call.agent).session_tools.checkpoints
    sessions = {call.agent.session_id}
    sessions |= {each.id for each in await call.app.store.ancestors(call.agent.session_id)}
    items = [
        PickerItem(
            one_line(each.reason, MAX_LABEL_COLUMNS),
            f"{human_duration(time.time() - each.time)} ago, {many(each.changed, 'file')}",
            str(each.number),
        )
        for each in await checkpoints.list()
        if each.session in sessions
    ]
    if not items:
        return ""

    async def preview(number: str) -> str:
        diff = await checkpoints.diff(int(number))
        rows = unified_diff_rows(diff, preview_columns(columns), display.paint)
        return "\n".join(rows) or "no difference"

    title = "Restore the files as they were before a turn"
    return await pick(title, items, preview=preview, paint=display.paint)
