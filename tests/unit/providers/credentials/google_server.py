"""Google on loopback: tokens for codes and refresh tokens, and the project of a login."""

from typing import Any
from urllib.parse import parse_qsl

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.providers.login.tokens import GOOGLE_SCOPES, GoogleClient
from tests.unit.providers.credentials.oauth_server import challenge, said

CODE = "4/0Ab-c_d"


class GoogleServer:
    def __init__(self) -> None:
        self._server = LoopbackServer(self._respond)
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.close = self._server.close
        self.client = GoogleClient(
            "my-client", "my-secret", f"{self.url}/auth", f"{self.url}/token"
        )
        self.asked: dict[str, str] = {}
        """The question that the browser was sent with."""
        self.forms: list[dict[str, str]] = []
        self.scope = " ".join(GOOGLE_SCOPES)
        self.loaded: list[RecordedRequest] = []
        self.load_status = 200
        self.quota: dict[str, Any] = {}
        self.account: dict[str, Any] = {"cloudaicompanionProject": "found-project"}

    def _respond(self, request: RecordedRequest) -> Outgoing:
        if request.path.endswith(":loadCodeAssist"):
            self.loaded.append(request)
            return said(self.account, self.load_status)
        if request.path.endswith(":retrieveUserQuota"):
            self.loaded.append(request)
            return said(self.quota)
        assert request.path == "/token"
        form = dict(parse_qsl(request.raw.decode()))
        self.forms.append(form)
        if not self._is_right(form):
            return said({"error": "invalid_grant"}, 400)
        number = len(self.forms)
        answer = {"access_token": f"ya29.{number}", "expires_in": 3599, "scope": self.scope}
        is_first = form["grant_type"] == "authorization_code"
        return said({**answer, "refresh_token": "1//r"} if is_first else answer)

    def _is_right(self, form: dict[str, str]) -> bool:
        if form["grant_type"] == "refresh_token":
            return (form["refresh_token"], form["client_secret"]) == ("1//r", "my-secret")
        return (
            form["code"] == CODE
            and (form["client_id"], form["client_secret"]) == ("my-client", "my-secret")
            and form["redirect_uri"] == self.asked["redirect_uri"]
            and challenge(form["code_verifier"]) == self.asked["code_challenge"]
        )
