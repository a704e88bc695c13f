"""Messages of ours, as Slack wants them."""

import hashlib
import unicodedata
from collections.abc import Iterator
from typing import Any

from hermes.gateway.platforms.kit.compose import split_text
from hermes.gateway.platforms.kit.contract import Button, OutgoingMessage, SendRefused
from hermes.gateway.platforms.slack.client import Options, escaped

Json = dict[str, Any]

EVENT = "hermes_message"
MOST_BUTTONS = 25
LABEL = 75
"""Characters of a button."""
SECTION = 3000
"""Characters of one block of text."""


def mark_of(key: str) -> str:
    """What a message of ours is known by, once it is there."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def is_marked(there: Json, key: str) -> bool:
    """Whether a message that is there is the one we mean."""
    metadata = there.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return metadata.get("event_type") == EVENT and payload.get("key") == mark_of(key)


def prefixed(text: str, message: OutgoingMessage, options: Options) -> str:
    """With the words that come before each answer. Its first part is the one that says what it
    answers; without that, parts cannot be told apart."""
    prefix = options.settings.reply_prefix
    if not prefix or not text.strip() or (options.quotes and not message.reply_to):
        return text
    return f"{escaped(prefix)}{text}"


def posted(message: OutgoingMessage, options: Options, key: str, thread: str) -> Json:
    """What creates a message; without where it goes."""
    body: Json = {
        **written(message, options),
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": EVENT, "event_payload": {"key": mark_of(key)}},
    }
    if thread:
        body["thread_ts"] = thread
        if options.broadcast and (message.reply_to or not options.quotes):
            body["reply_broadcast"] = True
    return body


def written(message: OutgoingMessage, options: Options) -> Json:
    """Raises `SendRefused` when there is nothing to show."""
    text = prefixed(message.text, message, options)
    if not text.strip() and not message.media:
        raise SendRefused("Slack shows no empty messages")
    if not message.buttons:
        return {"text": text}
    return {"text": text, "blocks": [*_sections(text), _actions(message.buttons)]}


def plainly(body: Json, message: OutgoingMessage, options: Options) -> Json:
    """The same without any formatting, and so without buttons."""
    rest = {name: value for name, value in body.items() if name != "blocks"}
    text = escaped(message.plain or message.text)
    return {**rest, "text": prefixed(text, message, options), "mrkdwn": False}


def _actions(buttons: tuple[Button, ...]) -> Json:
    elements = [
        {
            "type": "button",
            "action_id": f"hermes_{number}",
            "text": {"type": "plain_text", "text": button.label[:LABEL] or "…", "emoji": True},
            "value": button.data,
        }
        for number, button in enumerate(buttons[:MOST_BUTTONS])
    ]
    return {"type": "actions", "elements": elements}


def _sections(text: str) -> Iterator[Json]:
    """Code that goes on in the next block is closed in the one and opened again in the other."""
    for part in split_text(text, SECTION, "utf16"):
        yield {"type": "section", "text": {"type": "mrkdwn", "text": part}}


# Slack's names of emoji; it does not take the signs themselves.

_NAMES = {
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
_PICTURE = "\ufe0f"
"""Says that a sign is to be shown in colour."""


def name_of(emoji: str) -> str:
    """Most names of Slack are those of Unicode; `:name:` and names go through."""
    sign = emoji.replace(_PICTURE, "").strip()
    if sign in _NAMES:
        return _NAMES[sign]
    if len(sign) == 1 and not sign.isascii():
        return unicodedata.name(sign, "question").lower().replace(" ", "_").replace("-", "_")
    return sign.strip(":")
