"""What the agent is told about the chat it talks in; never stored."""

import hashlib

from hermes.config.settings import Settings
from hermes.gateway.platforms.kit.contract import MessageEvent, SessionSource

PRIVATE_PLATFORMS = frozenset({"whatsapp", "signal", "telegram"})
"""Where ids are telephone numbers or the like, so that `privacy.redact_pii` hides them."""
KINDS = {"dm": "a private chat", "group": "a group", "channel": "a channel"}
MOST_QUOTED = 4000
"""Characters. What is answered may be what is asked about, and may have been said to others."""


def surroundings(source: SessionSource, settings: Settings, *, shared: bool, homes: str) -> str:
    """Who, where, and what else is connected; the same as long as the chat is the same."""
    place = KINDS.get(source.chat_type, source.chat_type)
    named = f" called {source.chat_name!r}" if source.chat_name else ""
    thread = ", in a thread" if source.thread_id else ""
    lines = [f"You talk in {place}{named} on {source.platform}{thread}."]
    if shared:
        lines.append("Several people write here; each message begins with the writer's name.")
    elif who := person(source, settings):
        lines.append(f"The user is {who}.")
    if homes:
        lines.append(f"Connected: {homes}.")
    prompts = getattr(getattr(settings, source.platform, None), "channel_prompts", {})
    for place in (source.thread_id, source.chat_now, source.chat_id):
        if more := prompts.get(place):
            return "\n".join([*lines, more])
    return "\n".join(lines)


def person(source: SessionSource, settings: Settings) -> str:
    """Who writes, as the model may know them."""
    if settings.privacy.redact_pii and source.platform in PRIVATE_PLATFORMS:
        return f"user_{hashlib.sha256(source.user_id.encode()).hexdigest()[:12]}"
    return source.user_name or source.user_id


def said(event: MessageEvent, settings: Settings, *, shared: bool) -> str:
    """The text of a message with who wrote it and what it answers, where that matters."""
    quoted = " ".join(event.reply_to_text.split())
    if len(quoted) > MOST_QUOTED:
        quoted = f"{quoted[:MOST_QUOTED]}…"
    before = f'[in answer to: "{quoted}"]\n' if quoted else ""
    who = f"[{person(event.source, settings)}] " if shared else ""
    return f"{before}{who}{event.text}"
