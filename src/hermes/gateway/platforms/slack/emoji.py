"""Slack's names of emoji; it does not take the signs themselves."""

import unicodedata

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
