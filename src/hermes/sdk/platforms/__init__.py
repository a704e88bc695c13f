"""The contract between a platform adapter and the gateway, and what adapters share: connections,
inbound delivery, rate limits, media, Markdown and an HTTP server.

A manifest imports nothing heavier than the contract; each part is loaded on first use.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.config.loader import Variable, variable_group
    from hermes.config.settings.base import Section
    from hermes.config.settings.base import PlatformBehaviour, PlatformConnectionSettings
    from hermes.sdk.platforms.connection import (
        ChatQueues, ConnectedAdapter, Connection, TaskSet, TokenInUse, acquire_scoped_lock,
        cancel_and_wait, release_scoped_lock, translate_errors,
    )
    from hermes.sdk.platforms.contract import (
        ALL_MEDIA, ANY_ID, TRUE_WORDS, WEB_SCHEMES, Adapter, AdapterContext, AdapterError,
        AddressFormat, Button, Capabilities, ChatInfo, ChatTarget, ChatType, CredentialField,
        CredentialsRefused, DeliveryQuery, DeliveryUnknown, Media, MediaKind, MessageDialect,
        MessageEvent, NotConnected, OutgoingMessage, PlatformManifest, RateLimit, Receive,
        SendLater, SendRefused, SendUnsure, SessionSource, UserIdFormat,
    )
    from hermes.sdk.platforms.http_server import (
        REPLAY_SECONDS, AsgiReceive, BodyTooLarge, ClientDisconnected, EarlyResponse, HttpServer,
        InvalidSignature, ReplayWindow, HttpRequestRefused, TimeLimitedProtocol, VerifiedSignature,
        discard_body, read_body, read_raw_body, serve_http, verify_signature,
    )
    from hermes.sdk.platforms.inbound import (
        OVERLAP, CatchUpQueue, GroupRules, IdScale, ReadPosition, deliver_once,
        deliver_until_accepted, group_rules, is_addressed, is_for_us, load_state, mentions,
        remember, strip_address, strip_mention, write_in_thread, write_private,
    )
    from hermes.sdk.platforms.media import (
        MediaCache, MediaTooLarge, guess_mime, media_kind, open_upload, safe_filename,
    )
    from hermes.sdk.platforms.outbound import (
        RateLimiter, compose, convert, find_open_fence, measure, split_text,
    )
    # fmt: on
    # isort: on

__all__ = [
    "ALL_MEDIA", "ANY_ID", "OVERLAP", "REPLAY_SECONDS", "TRUE_WORDS", "WEB_SCHEMES", "Adapter",
    "AdapterContext", "AdapterError", "AddressFormat", "AsgiReceive", "BodyTooLarge", "Button",
    "Capabilities", "CatchUpQueue", "ChatInfo", "ChatQueues", "ChatTarget", "ChatType",
    "ClientDisconnected", "ConnectedAdapter", "Connection", "CredentialField", "CredentialsRefused",
    "DeliveryQuery", "DeliveryUnknown", "EarlyResponse", "GroupRules", "HttpRequestRefused",
    "HttpServer", "IdScale", "InvalidSignature", "Media", "MediaCache", "MediaKind",
    "MediaTooLarge", "MessageDialect", "MessageEvent", "NotConnected", "OutgoingMessage",
    "PlatformBehaviour", "PlatformConnectionSettings", "PlatformManifest", "RateLimit",
    "RateLimiter", "ReadPosition", "Receive", "ReplayWindow", "Section", "SendLater", "SendRefused",
    "SendUnsure", "SessionSource", "TaskSet", "TimeLimitedProtocol", "TokenInUse", "UserIdFormat",
    "Variable", "VerifiedSignature", "acquire_scoped_lock", "cancel_and_wait", "compose", "convert",
    "deliver_once", "deliver_until_accepted", "discard_body", "find_open_fence", "group_rules",
    "guess_mime", "is_addressed", "is_for_us", "load_state", "measure", "media_kind", "mentions",
    "open_upload", "read_body", "read_raw_body", "release_scoped_lock", "remember", "safe_filename",
    "serve_http", "split_text", "strip_address", "strip_mention", "translate_errors",
    "variable_group", "verify_signature", "write_in_thread", "write_private",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
