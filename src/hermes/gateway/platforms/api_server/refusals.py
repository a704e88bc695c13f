"""Answers to what cannot be done, in the form of OpenAI's errors."""

from math import ceil

import msgspec

from hermes.core.errors import (
    BudgetSpent,
    ConfigError,
    CredentialMissing,
    HermesError,
    Interrupted,
    LocalModelError,
    ProviderError,
    RateLimited,
    SessionNotFound,
    StoreError,
    UsageError,
)
from hermes.core.events import TurnFinished

INVALID = "invalid_request_error"

Headers = tuple[tuple[str, str], ...]

KINDS = {
    400: INVALID,
    401: "authentication_error",
    403: "permission_error",
    404: INVALID,
    405: INVALID,
    408: INVALID,
    409: INVALID,
    413: INVALID,
    415: INVALID,
    422: INVALID,
    429: "rate_limit_error",
}


class ErrorDetails(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: ErrorDetails


class Refused(HermesError):
    """The client is told so."""

    def __init__(
        self, status: int, message: str, *, code: str = "", param: str = "", headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    @property
    def answer(self) -> ErrorAnswer:
        kind = KINDS.get(self.status, "server_error")
        return ErrorAnswer(ErrorDetails(str(self), kind, self.param or None, self.code or None))


def invalid(message: str, *, param: str = "", code: str = "") -> Refused:
    return Refused(400, message, param=param, code=code)


def missing(message: str, code: str = "not_found") -> Refused:
    return Refused(404, message, code=code)


AGAIN_IS_NO_HELP = (("X-Should-Retry", "false"),)
"""OpenAI's clients repeat a request that failed with 5xx; tools of a turn would run twice."""


OUR_FAULT = Refused(500, "internal error; the log has more", code="internal_error")


def retry_after(seconds: float) -> Headers:
    return (("Retry-After", str(max(1, ceil(seconds)))),)


STATUSES: tuple[tuple[type[HermesError], int, str], ...] = (
    (UsageError, 400, "invalid_request"),
    (SessionNotFound, 404, "session_not_found"),
    (BudgetSpent, 429, "insufficient_quota"),
    (RateLimited, 429, "rate_limit_exceeded"),
    (CredentialMissing, 500, "not_configured"),
    (ConfigError, 500, "not_configured"),
    (LocalModelError, 502, "model_failed"),
    (ProviderError, 502, "model_failed"),
    (StoreError, 503, "store_failed"),
    (Interrupted, 503, "interrupted"),
)
"""The first that fits."""

EXITS = {4: (500, "not_configured"), 5: (502, "model_failed"), 6: (503, "store_failed")} | {
    7: (502, "model_failed"),
    8: (429, "insufficient_quota"),
    130: (503, "interrupted"),
}
"""The same for the exit code of a turn."""


def refusal_of(error: HermesError) -> Refused:
    if isinstance(error, Refused):
        return error
    found = ((status, code) for kind, status, code in STATUSES if isinstance(error, kind))
    status, code = next(found, (500, "internal_error"))
    message = f"{error}; {error.hint}" if error.hint else str(error)
    headers: Headers = AGAIN_IS_NO_HELP
    if isinstance(error, RateLimited) and error.retry_after is not None:
        headers += retry_after(error.retry_after)
    return Refused(status, message, code=code, headers=headers)


def failure_of(end: TurnFinished) -> Refused | None:
    """What to say of a turn that did not come to an answer; None for one that did."""
    if not end.error and not end.interrupted:
        return None
    status, code = EXITS.get(end.exit_code, (500, "internal_error"))
    message = end.error or "the turn was stopped"
    if end.hint:
        message = f"{message}; {end.hint}"
    return Refused(status, message, code=code, headers=AGAIN_IS_NO_HELP)
