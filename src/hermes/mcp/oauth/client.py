"""Who we are to a login server."""

import base64
from urllib.parse import quote

import msgspec

NONE, POST, BASIC = "none", "client_secret_post", "client_secret_basic"
METHODS = (NONE, POST, BASIC)
"""How a client can show that it is itself, the best for a program on somebody's machine first."""


class Client(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    """May be the https address of a document that describes the client."""
    secret: str = ""
    method: str = NONE
    port: int = 0
    """Where the browser comes back to, for a client that somebody registered by hand: the login
    server knows that address. 0 for one that registers itself."""

    def __repr__(self) -> str:
        return f"Client({self.id!r})"

    def signed(self, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers of a request to the login server."""
        if self.method == BASIC and self.secret:
            pair = f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}"
            return form, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        secret = {"client_secret": self.secret} if self.secret else {}
        return {**form, "client_id": self.id, **secret}, {}
