"""Every error Hermes raises on purpose, and what each one decides.

    HermesError
    ├── UsageError                the command line or an API call was wrong
    ├── ConfigError               a settings file or value is wrong (file, line, column)
    ├── Interrupted               the user asked to stop
    ├── BudgetSpent               a cap on calls or money was reached
    ├── StoreError                the session store cannot do what was asked
    │   ├── StoreCorrupt          the file is damaged
    │   ├── StoreTooNew           the file was written by a later version
    │   ├── StoreFull             no room on the disk
    │   ├── LeaseLost             another process works on it now
    │   ├── StoreConflict         another process has changed it
    │   └── SessionNotFound
    ├── ToolError                 sent to the model as the result
    │   ├── ToolUnknown
    │   ├── ToolArgumentsInvalid
    │   ├── ToolDenied
    │   ├── ToolTimedOut
    │   └── BackendUnavailable    the backend of commands cannot be used
    ├── AttachmentRefused         a file is not sent with a message
    ├── LocalModelError           the embedded model cannot be fetched or started
    │   ├── DownloadFailed
    │   └── ChecksumMismatch
    └── ProviderError             a model endpoint refused or failed (status, body)
        ├── CredentialMissing     no key is configured
        │   └── KeyNotBound       the user has not said that the key may go to this host
        ├── CredentialsExhausted  every key of the pool rests     -> fall back
        ├── CredentialRefused     401, 403                      -> refresh, rotate, fall back
        ├── QuotaSpent            402, billing                  -> rotate, fall back
        ├── RateLimited           429 (retry_after)             -> wait, rotate, fall back
        ├── ModelNotFound         404                           -> fall back
        ├── ContextOverflow       413, context length           -> compact
        ├── ContentRefused        filtered by the provider      -> fail
        ├── RequestRefused        any other 4xx                 -> fall back
        │   ├── SignatureRefused  bad reasoning signature       -> drop reasoning, retry once
        │   ├── UnicodeRefused    characters it cannot take     -> clean, retry
        │   ├── OptionRefused     effort or temperature         -> leave it out, retry
        │   └── ToolsRefused      a tool's schema, or tools at all
        └── Transient             worth trying again            -> retry, fall back
            ├── ServerFault       5xx
            │   └── Overloaded    503, 529: too many users
            ├── Unreachable       no connection, DNS, TLS
            ├── StreamStalled     no byte for too long
            ├── StreamCut         the connection ended mid reply
            └── ReplyInvalid      malformed or empty reply

`exit_code` is what the command line returns; `hint` says what the user can do next.
"""

from typing import ClassVar


class HermesError(Exception):
    """Base of all errors. `str(error)` is one line for a person; `hint` is the next step, or
    empty."""

    exit_code: ClassVar[int] = 1
    exit_reason: ClassVar[str] = "failed"  #: What a turn that ends with it is stored as.

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(HermesError):
    exit_code = 2


class ConfigError(HermesError):
    """A settings file or value is wrong. `where` is `file:line:column` as far as known."""

    exit_code = 3

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class Interrupted(HermesError):
    exit_code = 130
    exit_reason = "interrupted"

    def __init__(self, message: str = "interrupted", *, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class BudgetSpent(HermesError):
    exit_code = 8
    exit_reason = "budget_spent"


class StoreError(HermesError):
    exit_code = 6


class StoreCorrupt(StoreError): ...


class StoreTooNew(StoreError): ...


class StoreFull(StoreError): ...


class LeaseLost(StoreError): ...


class StoreConflict(StoreError): ...


class SessionNotFound(StoreError):
    exit_code = 2


class ToolError(HermesError):
    """A tool failed. The message is sent to the model as the tool's result."""


class ToolUnknown(ToolError): ...


class ToolArgumentsInvalid(ToolError): ...


class ToolDenied(ToolError):
    NO_OTHER_WAY: ClassVar = (
        "do not try the same thing in another way; continue without it or ask the user"
    )
    """The hint of a refusal, for the model only."""


class ToolTimedOut(ToolError): ...


class BackendUnavailable(ToolError):
    """The container, sandbox or machine for commands cannot be used; the hint says what to set
    up."""


class AttachmentRefused(HermesError):
    """A file is not attached to a message. The text continues a sentence after the path: `is
    larger than 20 MB`. `missing`: there is no such file in the conversation's folder."""

    def __init__(self, message: str, *, missing: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class LocalModelError(HermesError):
    exit_code = 7


class DownloadFailed(LocalModelError): ...


class ChecksumMismatch(LocalModelError): ...


class ProviderError(HermesError):
    """A model endpoint refused or failed.

    `provider` is the provider id, `status` the HTTP status or None, `body` the start of the
    response without secrets, `retry_after` the seconds it asked to wait, or None.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        body: str = "",
        hint: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.status = status
        self.body = body
        self.retry_after = retry_after


class CredentialMissing(ProviderError):
    exit_code = 4


class KeyNotBound(CredentialMissing):
    """The key in `variable` may go to `base_url` only after the user has said so."""

    def __init__(
        self, message: str, *, hint: str = "", variable: str = "", base_url: str = ""
    ) -> None:
        super().__init__(message, provider="custom", hint=hint)
        self.variable, self.base_url = variable, base_url


class CredentialRefused(ProviderError):
    exit_code = 4


class CredentialsExhausted(ProviderError): ...


class QuotaSpent(ProviderError): ...


class RateLimited(ProviderError): ...


class ModelNotFound(ProviderError): ...


class ContextOverflow(ProviderError): ...


class ContentRefused(ProviderError): ...


class RequestRefused(ProviderError): ...


class SignatureRefused(RequestRefused): ...


class UnicodeRefused(RequestRefused): ...


class OptionRefused(RequestRefused): ...


class ToolsRefused(RequestRefused): ...


class Transient(ProviderError):
    """Repeating the same request may help."""


class ServerFault(Transient): ...


class Overloaded(ServerFault): ...


class Unreachable(Transient): ...


class StreamStalled(Transient): ...


class StreamCut(Transient): ...


class ReplyInvalid(Transient): ...
