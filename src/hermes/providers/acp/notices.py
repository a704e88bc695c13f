"""What the Copilot CLI says itself among the words of its model.

It ends a turn in good order whatever happened, and tells of failures in a chunk of text of their
own: `Error: 402 Insufficient credits`, `Info: Operation cancelled by user`. Taken for an answer
of the model, a spent quota would look like a reply.
"""

import re

import msgspec

from hermes.core.errors import CredentialRefused, ProviderError, ReplyInvalid
from hermes.providers.failures.later import failed_inside

_NOTICE = re.compile(r"(Info|Warning|Error): (\S.*)", re.DOTALL)
_STATUS = re.compile(r"(?:^|HTTP |Last error: )([45]\d\d)\b")
_STOPPED = "Operation cancelled by user"
"""Its model called a tool of its own, and we refused."""


class Notice(msgspec.Struct, frozen=True):
    kind: str
    text: str

    def trouble(self, provider: str) -> ProviderError | None:
        """The error it tells of, should the turn end with it; None when it is only news."""
        if self.text == _STOPPED:
            return ReplyInvalid(
                f"{provider} tried to use a tool of its own instead of one of Hermes",
                provider=provider,
                hint="try again; `--available-tools=none` in HERMES_COPILOT_ACP_ARGS takes its"
                " tools away",
            )
        if self.kind != "Error":
            return None
        told: dict[str, object] = {"message": self.text}
        if status := _STATUS.search(self.text):
            told["status"] = int(status[1])
        error = failed_inside(provider, told)
        if isinstance(error, CredentialRefused):
            error.hint = "log in with that program: run `copilot login`"
        return error


def notice_in(chunk: str) -> Notice | None:
    found = _NOTICE.fullmatch(chunk)
    return Notice(found[1], found[2].strip()) if found else None
