"""A login server on loopback: device codes, refresh tokens for one use, OpenAI's form, exchange.

What it answers to the next polls is put into `polls`; an empty list means consent.
"""

import base64
import hashlib
import itertools
import json
from typing import Any
from urllib.parse import parse_qsl

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest, Stop
from hermes.providers.endpoints import LoginSpec

CLIENT = "test-client"


class OAuthServer:
    def __init__(self) -> None:
        self._server = LoopbackServer(self._respond)
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.polls: list[str | int | Stop] = []
        self.interval: float | None = 5
        self.lifetime: int | None = 3600
        self.refresh_answers: list[int | Stop] = []
        """Statuses of failures to come before a refresh works."""
        self.delay = 0.0
        self.exchange_status = 200
        self.api = ""
        self.live: set[str] = {"refresh-0"}
        """Refresh tokens that were given out and not used."""
        self.refreshes = 0
        self.reused = 0
        self._numbers = itertools.count(1)
        self._challenge = ""

    def close(self) -> None:
        """Once or more often."""
        if self.url:
            self._server.close()
            self.url = ""

    def login(self, **changes: Any) -> LoginSpec:
        fields = {
            "client_id": CLIENT,
            "device_url": f"{self.url}/device/code",
            "token_url": f"{self.url}/token",
            "scope": "models",
        }
        return LoginSpec(**{**fields, **changes})

    def codex(self) -> LoginSpec:
        return self.login(
            device_url=f"{self.url}/api/accounts/deviceauth/usercode",
            token_url=f"{self.url}/oauth/token",
            flow="codex",
        )

    def sent(self, path: str) -> list[dict[str, Any]]:
        return [form for where, form, _ in self.requests if where == path]

    def _respond(self, request: RecordedRequest) -> Outgoing:
        form = request.body
        if not isinstance(form, dict):
            form = dict(parse_qsl(request.raw.decode(), keep_blank_values=True))
        self.requests.append((request.path, form, request.headers))
        routes = {
            "/device/code": self._device_code,
            "/token": self._token,
            "/oauth/token": self._token,
            "/exchange": self._exchange,
            "/api/accounts/deviceauth/usercode": self._codex_code,
            "/api/accounts/deviceauth/token": self._codex_poll,
        }
        return routes[request.path](form)

    def _device_code(self, form: dict[str, Any]) -> Outgoing:
        assert form["client_id"] == CLIENT
        self._challenge = form.get("code_challenge", "")
        answer = {
            "device_code": "device-1",
            "user_code": "ABCD-1234",
            "verification_uri": f"{self.url}/activate",
            "expires_in": 600,
        }
        return said({**answer, "interval": self.interval} if self.interval is not None else answer)

    def _token(self, form: dict[str, Any]) -> Outgoing:
        if form["grant_type"] == "refresh_token":
            return self._refresh(form)
        if form["grant_type"] == "authorization_code":
            assert form["code"] == "granted"
            assert form["code_verifier"] == "verifier"
            assert form["redirect_uri"] == f"{self.url}/deviceauth/callback"
            return self._grant()
        assert form["device_code"] == "device-1"
        if self.polls:
            return self._poll()
        if self._challenge and challenge(form.get("code_verifier", "")) != self._challenge:
            return said({"error": "invalid_grant"}, 400)
        return self._grant()

    def _poll(self) -> Outgoing:
        match self.polls.pop(0):
            case Stop() as stop:
                return Outgoing(200, {}, [b"{", stop], chunked=True)
            case int() as status:
                return said({}, status)
            case error:
                return said({"error": error}, 400)

    def _refresh(self, form: dict[str, Any]) -> Outgoing:
        if self.refresh_answers:
            match self.refresh_answers.pop(0):
                case Stop() as stop:
                    return Outgoing(200, {}, [b"{", stop], chunked=True)
                case status:
                    return said({"error": "temporarily_unavailable"}, status)
        self.refreshes += 1
        if form["refresh_token"] not in self.live:
            self.reused += 1
            return said({"error": "invalid_grant"}, 400)
        self.live.remove(form["refresh_token"])
        return self._grant()

    def _grant(self) -> Outgoing:
        number = next(self._numbers)
        self.live.add(f"refresh-{number}")
        answer = {"access_token": f"access-{number}", "refresh_token": f"refresh-{number}"}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        return said(answer, delay=self.delay)

    def _exchange(self, form: dict[str, Any]) -> Outgoing:
        if self.exchange_status != 200:
            return said({"message": "no"}, self.exchange_status)
        number = next(self._numbers)
        answer = {"token": f"short-{number}", "expires_at": 1772719200, "endpoints": {}}
        return said({**answer, "endpoints": {"api": self.api}} if self.api else answer)

    def _codex_code(self, form: dict[str, Any]) -> Outgoing:
        assert form == {"client_id": CLIENT}
        return said(
            {"device_auth_id": "auth-1", "user_code": "WXYZ", "interval": str(self.interval)}
        )

    def _codex_poll(self, form: dict[str, Any]) -> Outgoing:
        assert form == {"device_auth_id": "auth-1", "user_code": "WXYZ"}
        if self.polls:
            return self._poll()
        return said({"authorization_code": "granted", "code_verifier": "verifier"})


def said(answer: dict[str, Any], status: int = 200, delay: float = 0.0) -> Outgoing:
    body = json.dumps(answer).encode()
    actions = [delay, body] if delay else [body]
    return Outgoing(status, {"Content-Type": "application/json"}, actions)


def challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def jwt(**claims: object) -> str:
    """An unsigned token that says `claims` of itself."""
    parts = [json.dumps({"alg": "none"}).encode(), json.dumps(claims).encode(), b"signature"]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
