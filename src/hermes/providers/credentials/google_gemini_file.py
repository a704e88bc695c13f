"""The login of the Gemini CLI, in `~/.gemini/oauth_creds.json`.

It is only read: what is renewed here is kept in memory, which Google's refresh tokens allow. They
are bound to the client they were given to, so renewing needs the id and the secret of that client;
without them the access token is used while it lasts, and `gemini` renews it in the file. A Gemini
CLI that keeps its login in the keychain of the system leaves no file.
"""

from pathlib import Path
from typing import Any

import msgspec

from hermes.providers.credentials.google_client import CLIENT_ID, CLIENT_SECRET, GoogleClient
from hermes.providers.credentials.oauth import Tokens
from hermes.providers.credentials.token_places import ForeignFile, from_milliseconds

ALONE = f"run `gemini` once, which renews it, or set {CLIENT_ID} and {CLIENT_SECRET} and log in"
REFUSED = f"run `gemini` once, which renews it; {CLIENT_ID} is not the client it was given to"


class GeminiFile(ForeignFile):
    def __init__(self, folder: Path, google: GoogleClient | None, lock: Path) -> None:
        """`folder` is `~/.gemini`; `lock` is a file of ours that is no other place's."""
        remedy = REFUSED if google else ALONE
        path = folder / "oauth_creds.json"
        super().__init__("gemini-cli", path, remedy, decode=self._tokens_in, encode=_nothing)
        self.lock, self._google = lock, google
        self._renewed: Tokens | None = None

    def read(self) -> Tokens | None:
        """Whichever lasts longer: what is in the file, or what was renewed since."""
        tokens = self._decode(self._raw())
        if tokens is None or not tokens.access_token:
            return None
        renewed = self._renewed
        if renewed is not None and renewed.refresh_token == tokens.refresh_token:
            tokens = max(tokens, renewed, key=lambda one: one.expires_at or 0.0)
        # By its access token: the Gemini CLI can renew what we could not.
        return msgspec.structs.replace(tokens, gone=tokens.access_token == self._gone)

    def replace(self, old: Tokens, new: Tokens) -> None:  # noqa: ARG002 - part of the Protocol
        self._renewed = new

    def mark_gone(self, old: Tokens) -> None:
        self._gone = old.access_token

    def _tokens_in(self, raw: dict[str, Any]) -> Tokens | None:
        access, refresh, scope = (
            value if isinstance(value := raw.get(name), str) else ""
            for name in ("access_token", "refresh_token", "scope")
        )
        expires_at = from_milliseconds(raw.get("expiry_date"))
        if self._google is None:
            return Tokens(access, expires_at=expires_at, scope=scope)
        return Tokens(
            access,
            refresh,
            expires_at=expires_at,
            scope=scope,
            token_url=self._google.token_url,
            client_id=self._google.id,
            client_secret=self._google.secret,
        )


def _nothing(_raw: dict[str, Any], _tokens: Tokens) -> None:
    """The file is never written."""
