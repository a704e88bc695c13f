"""From what the agent says to messages that fit the platform."""

from collections.abc import Sequence

from hermes.gateway.events import Media, Outgoing
from hermes.gateway.platforms.base import Capabilities
from hermes.gateway.platforms.kit.markdown import convert
from hermes.gateway.platforms.kit.splitting import split


def compose(text: str, capabilities: Capabilities, files: Sequence[Media] = ()) -> list[Outgoing]:
    """Return messages in the platform's dialect, each within its limit, then one for each file.
    Blank text without files gives no message."""

    def dialect(part: str) -> str:
        return convert(part, capabilities.dialect)

    parts = split(text, capabilities.max_chars, capabilities.counts, dialect)
    messages = [Outgoing(dialect(part), plain=convert(part, "plain")) for part in parts]
    return messages + [Outgoing(media=(media,)) for media in files]
