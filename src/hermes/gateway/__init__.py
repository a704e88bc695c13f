"""Chats on messaging platforms: messages that come in become turns, and each answer is sent once.

`GatewayRunner` runs the gateway of a home; `Gateway` receives messages, `ChatWorker` runs the turns
of one chat, and `GatewayOutbox` sends. Names are loaded on first use.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.gateway.chat_session import mirror_to_chat
    from hermes.gateway.directory import ChatDirectory, TargetResolver, split_chat
    from hermes.gateway.outbox import GatewayOutbox
    from hermes.gateway.pairing import PairingStore, is_switched_on, parse_user_list
    from hermes.gateway.platforms.registry import (
        configured_platforms, home_variable, install_libraries, is_configured, manifests,
        media_folder, missing_variables,
    )
    from hermes.gateway.platforms.webhook.adapter import ReplyDelivery
    from hermes.gateway.platforms.webhook.subscriptions import WebhookRoute
    from hermes.gateway.process import claim_home, running_gateway, stop_gateway
    from hermes.gateway.questions import SharedApproval, SharedResolution, parse_answer
    from hermes.gateway.runner import start_gateway
    from hermes.gateway.session_keys import build_session_key, sharing
    # fmt: on
    # isort: on

__all__ = [
    "ChatDirectory", "GatewayOutbox", "PairingStore", "ReplyDelivery", "SharedApproval",
    "SharedResolution", "TargetResolver", "WebhookRoute", "build_session_key", "claim_home",
    "configured_platforms", "home_variable", "install_libraries", "is_configured", "is_switched_on",
    "manifests", "media_folder", "mirror_to_chat", "missing_variables", "parse_answer",
    "parse_user_list", "running_gateway", "sharing", "split_chat", "start_gateway", "stop_gateway",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
