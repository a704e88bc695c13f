"""The text of a turn for a reader who cannot unsee what came."""

from hermes.core.events import Event, TextFinished, UsageReported
from hermes.core.model import FellBack, Retrying, TextDelta

GAP = "\n\n"
"""Between two replies of one turn."""


class Speech:
    """What to send for each event. A call that is made again says its text anew: what is the same
    is not sent twice, and what is not is sent behind what cannot be taken back."""

    def __init__(self) -> None:
        self.text = ""
        """All that was sent."""
        self._reply = ""
        """What was sent of the reply that comes in."""
        self._anew: str | None = None
        """What came since the reply began again."""
        self._due = ""
        """What has to stand before the next text."""

    def hear(self, event: Event) -> str:
        match event:
            case TextDelta():
                return self._delta(event.text)
            case Retrying() | FellBack():
                self._anew = ""
            case TextFinished():
                said = self._caught_up(event.text)
                self._reply, self._due = "", GAP
                return said
            case UsageReported() if event.finish_reason == "length":
                self._due = ""  # the next reply goes on in the middle of a sentence
            case _:
                pass
        return ""

    def _delta(self, text: str) -> str:
        if self._anew is None:
            return self._more(text)
        self._anew += text
        return "" if self._reply.startswith(self._anew) else self._caught_up(self._anew)

    def _caught_up(self, whole: str) -> str:
        """What is missing, now that the reply is `whole` so far."""
        self._anew = None
        if whole.startswith(self._reply):
            return self._more(whole[len(self._reply) :])
        if self._reply.startswith(whole):
            return ""
        self._reply, self._due = "", GAP
        return self._more(whole)

    def _more(self, text: str) -> str:
        if not text:
            return ""
        sent = self._due + text
        self._due = ""
        self._reply += text
        self.text += sent
        return sent
