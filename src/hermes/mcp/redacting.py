"""Secrets taken out of what a server says, before the model or the user sees it."""

import re

from hermes.config.masking import is_secret_variable
from hermes.config.settings.abilities import McpServer
from hermes.security.redaction import MARK, Redactor

# Wider than the shapes of `security`: in an error message a word too many does no harm.
_LOOSE = re.compile(
    r"(?P<keep>\bghp_|\bsk-|\bbearer\s+|"
    r"(?:token|key|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s\"'&,;<>…]+",
    re.IGNORECASE,
)


class ErrorRedactor:
    """Knows the secrets in the settings of one server, and what secrets look like."""

    def __init__(self, settings: McpServer) -> None:
        known = [value for name, value in settings.env.items() if is_secret_variable(name)]
        for value in settings.headers.values():
            known += [value, value.partition(" ")[2]]
        self._redactor = Redactor(known)

    def redact(self, text: str) -> str:
        return _LOOSE.sub(rf"\g<keep>{MARK}", self._redactor.redact(text))
