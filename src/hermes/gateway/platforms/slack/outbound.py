"""Outbound messages as Slack expects them, and its names of emoji."""

import hashlib
import unicodedata
from collections.abc import Iterator
from typing import Any

from hermes.gateway.platforms.kit.compose import split_text
from hermes.gateway.platforms.kit.contract import Button, OutgoingMessage, SendRefused
from hermes.gateway.platforms.slack.client import SlackOptions, escape_text

Json = dict[str, Any]
METADATA_EVENT = "hermes_message"
MAX_BUTTONS = 25
MAX_LABEL = 75
"""Maximum characters of a button label."""
MAX_SECTION = 3000
"""Maximum characters of one text block."""
_EMOJI_NAMES = {
    "👀": "eyes",
    "👍": "+1",
    "👎": "-1",
    "👌": "ok_hand",
    "👏": "clap",
    "🙏": "pray",
    "✅": "white_check_mark",
    "✔": "heavy_check_mark",
    "❌": "x",
    "❗": "exclamation",
    "❓": "question",
    "⚠": "warning",
    "⛔": "no_entry",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⏸": "double_vertical_bar",
    "🛑": "octagonal_sign",
    "🤔": "thinking_face",
    "😂": "joy",
    "😢": "cry",
    "❤": "heart",
    "🔥": "fire",
    "🎉": "tada",
    "💯": "100",
    "🚀": "rocket",
    "⚙": "gear",
    "🔄": "arrows_counterclockwise",
    "✍": "writing_hand",
    "🤖": "robot_face",
}
_COLOUR_SELECTOR = "\ufe0f"
"""Variation selector that requests the coloured form."""


def message_mark(key: str) -> str:
    """Return the mark by which a delivered message is recognized."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def is_marked(there: Json, key: str) -> bool:
    """True if this message carries the mark of the key."""
    metadata = there.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return metadata.get("event_type") == METADATA_EVENT and payload.get("key") == message_mark(key)


def add_prefix(text: str, message: OutgoingMessage, options: SlackOptions) -> str:
    """Add the configured prefix to the first part of an answer, which is the one that replies;
    without replies the parts cannot be distinguished."""
    prefix = options.settings.reply_prefix
    if not prefix or not text.strip() or (options.reply_references and not message.reply_to):
        return text
    return f"{escape_text(prefix)}{text}"


def message_body(message: OutgoingMessage, options: SlackOptions, key: str, thread: str) -> Json:
    """Return the body of a new message, without its channel."""
    body: Json = {
        **text_body(message, options),
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": METADATA_EVENT, "event_payload": {"key": message_mark(key)}},
    }
    if thread:
        body["thread_ts"] = thread
        if options.broadcast and (message.reply_to or not options.reply_references):
            body["reply_broadcast"] = True
    return body


def text_body(message: OutgoingMessage, options: SlackOptions) -> Json:
    """Return text and blocks. Raises `SendRefused` when there is nothing to show."""
    text = add_prefix(message.text, message, options)
    if not text.strip() and not message.media:
        raise SendRefused("Slack does not accept empty messages")
    if not message.buttons:
        return {"text": text}
    return {"text": text, "blocks": [*_sections(text), _actions(message.buttons)]}


def plain_body(body: Json, message: OutgoingMessage, options: SlackOptions) -> Json:
    """Return the body without formatting, and therefore without buttons."""
    rest = {name: value for name, value in body.items() if name != "blocks"}
    text = escape_text(message.plain or message.text)
    return {**rest, "text": add_prefix(text, message, options), "mrkdwn": False}


def emoji_name(emoji: str) -> str:
    """Return Slack's name of an emoji. Most are the Unicode names; `:name:` and names are
    accepted."""
    sign = emoji.replace(_COLOUR_SELECTOR, "").strip()
    if sign in _EMOJI_NAMES:
        return _EMOJI_NAMES[sign]
    if len(sign) == 1 and not sign.isascii():
        return unicodedata.name(sign, "question").lower().replace(" ", "_").replace("-", "_")
    return sign.strip(":")


def _actions(buttons: tuple[Button, ...]) -> Json:
    elements = [
        {
            "type": "button",
            "action_id": f"hermes_{number}",
            "text": {"type": "plain_text", "text": button.label[:MAX_LABEL] or "…", "emoji": True},
            "value": button.data,
        }
        for number, button in enumerate(buttons[:MAX_BUTTONS])
    ]
    return {"type": "actions", "elements": elements}


def _sections(text: str) -> Iterator[Json]:
    """A code block that continues in the next section is closed and opened again."""
    for part in split_text(text, MAX_SECTION, "utf16"):
        yield {"type": "section", "text": {"type": "mrkdwn", "text": part}}
