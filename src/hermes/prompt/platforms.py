"""What the model is told about where its words appear."""

_MEDIA = "Send a file by writing MEDIA:/absolute/path in your answer."
_PLAIN = "Markdown does not render: write plain text."

PLATFORM_HINTS = {
    "cli": "You are talking in a terminal: plain text, short lines, little Markdown.",
    "telegram": "You are in a Telegram chat. Bold, italic, strike, ||spoiler||, `code`, code"
    f" blocks, links and headers render; tables do not. {_MEDIA}",
    "discord": f"You are in a Discord chat. Markdown renders, tables do not. {_MEDIA}",
    "slack": f"You are in a Slack chat. Markdown renders, tables do not. {_MEDIA}",
    "whatsapp": f"You are in a WhatsApp chat. {_PLAIN} {_MEDIA}",
    "signal": f"You are in a Signal chat. {_PLAIN} {_MEDIA}",
    "matrix": f"You are in a Matrix room. Markdown renders. {_MEDIA}",
    "mattermost": f"You are in a Mattermost chat. Markdown renders, tables too. {_MEDIA}",
    "email": "You are answering by email: plain text with a clear structure, no Markdown, no"
    f" chatter; the subject stays. {_MEDIA}",
    "sms": "You are answering by SMS: plain text, as short as can be, no Markdown, no files.",
    "bluebubbles": f"You are in an iMessage chat. {_PLAIN} Keep it short. {_MEDIA}",
    "weixin": f"You are in a Weixin (WeChat) chat. Markdown renders; keep it compact. {_MEDIA}",
    "wecom": f"You are in a WeCom chat. Markdown renders. {_MEDIA} You can send files: never say"
    " that you cannot.",
    "dingtalk": f"You are in a DingTalk chat. Simple Markdown renders. {_MEDIA}",
    "feishu": f"You are in a Feishu (Lark) chat. Markdown renders. {_MEDIA}",
    "qqbot": f"You are in a QQ chat. Simple Markdown renders. {_MEDIA}",
    "homeassistant": "You are answering an event of a smart home through Home Assistant: one or two"
    " plain sentences; nobody may be reading.",
    "webhook": "An event sent by a program started you; nobody is there to answer. Do not ask:"
    " decide, finish, and report the result.",
    "api_server": "You are answering over an API; another program shows your text. Markdown usually"
    " renders. Name files by their absolute path.",
    "cron": "This is a scheduled job; nobody is there. Do not ask: decide and finish on your own."
    " Your last answer is delivered as it stands; make it the result itself.",
    "acp": "You are inside a code editor. Markdown renders. Name files by their path, with the line"
    " where it helps.",
}
"""By platform; one that is not here gets no hint."""


def platform_hint(platform: str) -> str:
    """The hint for a platform, whichever way its name is written (`api-server`, `api_server`)."""
    return PLATFORM_HINTS.get(platform.strip().lower().replace("-", "_"), "")
