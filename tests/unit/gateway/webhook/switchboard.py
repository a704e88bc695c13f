"""The webhook application in memory, with what it kept, and calls signed as real ones are."""

import hashlib
import hmac
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from hermes.gateway.platforms.webhook.adapter import create_app
from hermes.gateway.platforms.webhook.requests import WebhookCall, WebhookHandler, WebhookLimits
from hermes.gateway.platforms.webhook.subscriptions import WebhookRoute, WebhookRoutes
from tests.unit.gateway.hand_clock import HandClock

SECRET = "the-secret-of-one-route"
OTHER = "the-secret-of-another-route"
NOW = 1_790_000_000.0


class Switchboard:
    def __init__(
        self, folder: Path, routes: dict[str, WebhookRoute] | None = None, **limits: Any
    ) -> None:
        self.kept: list[WebhookCall] = []
        self.takes = True
        self.clock = HandClock(NOW)
        fixed = routes or {"one": WebhookRoute(secret=SECRET), "two": WebhookRoute(secret=OTHER)}
        usual = {"secret": "", "on_loopback": True, "per_minute": 30, "max_body_bytes": 10_000}
        made = WebhookLimits(**(usual | limits))
        handler = WebhookHandler(
            WebhookRoutes(fixed, folder / "webhook_subscriptions.json"), made, self.clock, self.keep
        )
        self._app = create_app(handler)

    async def keep(self, route: WebhookRoute, call: WebhookCall) -> bool:
        if self.takes:
            self.kept.append(call)
        return self.takes

    async def post(
        self, path: str, body: Any, headers: list[tuple[str, str]] | dict[str, str] | None = None
    ) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self._app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8644") as web:
            return await web.post(path, content=body, headers=headers)

    async def call(self, body: bytes, **headers: str) -> httpx2.Response:
        """A genuine call of route `one`, in the manner of GitHub, but for what `headers` say."""
        said = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": "d-1",
            "X-Hub-Signature-256": github(body),
        }
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.post("/webhooks/one", body, {k: v for k, v in said.items() if v})


def digest(body: bytes, secret: str = SECRET, algorithm: str = "sha256") -> str:
    return hmac.new(secret.encode(), body, getattr(hashlib, algorithm)).hexdigest()


def github(body: bytes, secret: str = SECRET) -> str:
    return f"sha256={digest(body, secret)}"


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)
