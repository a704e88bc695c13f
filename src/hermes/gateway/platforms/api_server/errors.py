"""Errors in the format of OpenAI's API."""

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

Headers = tuple[tuple[str, str], ...]

NO_RETRY: Headers = (("X-Should-Retry", "false"),)
"""OpenAI's clients retry after 5xx errors, which would run the tools of a turn twice."""

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_BY_CLASS: tuple[tuple[type[HermesError], int, str], ...] = (
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
"""Status and code by error class; the first match counts."""

_BY_EXIT_CODE = {
    4: (500, "not_configured"),
    5: (502, "model_failed"),
    6: (503, "store_failed"),
    7: (502, "model_failed"),
    8: (429, "insufficient_quota"),
    130: (503, "interrupted"),
}
"""Status and code by the exit code of a turn."""


class ErrorDetails(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetails


class ApiError(HermesError):
    """An error response for the client."""

    def __init__(
        self, status: int, message: str, *, code: str = "", param: str = "", headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    @property
    def body(self) -> ErrorBody:
        fallback = "invalid_request_error" if self.status < 500 else "server_error"
        kind = _TYPES.get(self.status, fallback)
        return ErrorBody(ErrorDetails(str(self), kind, self.param or None, self.code or None))


INTERNAL_ERROR = ApiError(500, "internal error; the log has more", code="internal_error")


def bad_request(message: str, *, param: str = "", code: str = "") -> ApiError:
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, code: str = "not_found") -> ApiError:
    return ApiError(404, message, code=code)


def retry_after(seconds: float) -> Headers:
    return (("Retry-After", str(max(1, ceil(seconds)))),)


def to_api_error(error: HermesError) -> ApiError:
    if isinstance(error, ApiError):
        return error
    found = ((status, code) for kind, status, code in _BY_CLASS if isinstance(error, kind))
    status, code = next(found, (500, "internal_error"))
    message = f"{error}; {error.hint}" if error.hint else str(error)
    headers = NO_RETRY
    if isinstance(error, RateLimited) and error.retry_after is not None:
        headers += retry_after(error.retry_after)
    return ApiError(status, message, code=code, headers=headers)


def turn_error(end: TurnFinished) -> ApiError | None:
    """Return the error for a turn without an answer; None if it has one."""
    if not end.error and not end.interrupted:
        return None
    status, code = _BY_EXIT_CODE.get(end.exit_code, (500, "internal_error"))
    message = end.error or "the turn was stopped"
    if end.hint:
        message = f"{message}; {end.hint}"
    return ApiError(status, message, code=code, headers=NO_RETRY)
