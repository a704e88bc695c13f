"""Comments on issues and pull requests, through GitHub's REST API.

Each comment ends with an invisible mark made of the message's key and the token, so that a comment
in doubt can be found again and nobody else can make one that passes for it.
"""

import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Any

import httpx2
import msgspec

from hermes.gateway.platforms.base import (
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
    Unknowable,
)
from hermes.gateway.platforms.webhook import templates
from hermes.util.late_tls import LateTls

API = "https://api.github.com"
SECONDS = 30.0
MOST_PAGES = 10

_REPO = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_NUMBER = re.compile(r"[0-9]{1,12}")
_DOTS = frozenset({".", ".."})
_USUAL = (
    ("repo", "{repository.full_name}"),
    ("number", "{number}"),
    ("number", "{issue.number}"),
    ("number", "{pull_request.number}"),
)
"""Where calls of GitHub name what they are about; of two the later counts."""


class Place(msgspec.Struct, frozen=True):
    repo: str
    number: str

    @classmethod
    def of(cls, extra: dict[str, str]) -> "Place":
        """Raises `SendRefused` for what is no place; the values may come from the call."""
        repo = extra.get("repo", "")
        number = extra.get("pr_number") or extra.get("issue_number") or extra.get("number") or ""
        if not _REPO.fullmatch(repo) or _DOTS & set(repo.split("/")):
            raise SendRefused(f"deliver_extra.repo is no owner/name: {repo[:80]!r}")
        if not _NUMBER.fullmatch(number):
            raise SendRefused(f"deliver_extra.pr_number is no number: {number[:80]!r}")
        return cls(repo, number)


def place_in(data: Any) -> dict[str, str]:
    """As `deliver_extra` would name what the call is about; what it does not say is left out."""
    said = ((name, path, templates.render(path, data, templates.line)) for name, path in _USUAL)
    return {name: value for name, path, value in said if value != path}


class GitHub:
    def __init__(self, token: str, api: str = API) -> None:
        self._token, self._api = token, api.rstrip("/")

    async def comment(self, place: Place, text: str, key: str) -> str:
        """The comment's id. Raises `SendRefused`, `SendLater`, `SendUnsure`."""
        if not self._token:
            raise SendRefused("github_comment needs the variable GITHUB_TOKEN")
        body = {"body": f"{text}\n\n{self._mark(key)}"}
        try:
            answer = await self._ask("POST", self._comments(place), json=body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise SendLater(f"GitHub cannot be reached: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise SendUnsure(f"GitHub did not answer: {type(error).__name__}") from None
        _check(answer)
        return str(_json(answer).get("id", ""))

    async def find(self, place: Place, key: str, since: float) -> str | None:
        """The id of the comment with this key; None when it is not there. Raises `NotConnected` and
        `Unknowable`."""
        mark = self._mark(key)
        day = datetime.fromtimestamp(max(since - 3600, 0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for page in range(1, MOST_PAGES + 1):
            query = {"since": day, "per_page": "100", "page": str(page)}
            try:
                answer = await self._ask("GET", self._comments(place), params=query)
            except httpx2.HTTPError as error:
                raise NotConnected(f"GitHub did not answer: {type(error).__name__}") from None
            if answer.status_code == httpx2.codes.NOT_FOUND:
                return None
            found = _json(answer) if answer.is_success else None
            if not isinstance(found, list):
                raise NotConnected(f"GitHub answered {answer.status_code}")
            for each in found:
                if mark in str(each.get("body", "")):
                    return str(each.get("id", ""))
            if len(found) < int(query["per_page"]):
                return None
        raise Unknowable("there are too many comments to look through")

    async def _ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "hermes",
        }
        async with httpx2.AsyncClient(timeout=SECONDS, headers=headers, verify=LateTls()) as client:
            return await client.request(method, f"{self._api}{path}", **more)

    def _mark(self, key: str) -> str:
        digest = hmac.new(self._token.encode(), key.encode(), hashlib.sha256).hexdigest()[:40]
        return f"<!-- hermes:{digest} -->"

    @staticmethod
    def _comments(place: Place) -> str:
        return f"/repos/{place.repo}/issues/{place.number}/comments"


def _check(answer: httpx2.Response) -> None:
    """Raises what a refusal means."""
    if answer.is_success:
        return
    status, headers = answer.status_code, answer.headers
    told = f"GitHub answered {status}"
    limited = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if status == httpx2.codes.TOO_MANY_REQUESTS or (status == httpx2.codes.FORBIDDEN and limited):
        wait = headers.get("retry-after", "")
        raise SendLater(told, seconds=float(wait) if wait.isdecimal() else 60.0)
    if status in (httpx2.codes.BAD_GATEWAY, httpx2.codes.GATEWAY_TIMEOUT):
        raise SendUnsure(told)
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        raise SendLater(told, seconds=10.0)
    raise SendRefused(f"{told}: the token may not comment there, or there is no such issue")


def _json(answer: httpx2.Response) -> Any:
    try:
        return msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
