"""The few questions of GitHub's REST API that the hub asks.

GET /repos/{repo}/commits/{ref}          Accept: application/vnd.github.sha  -> the commit
GET /repos/{repo}/tarball/{commit}       -> 302 to the archive
and, to publish, those of `hermes.skills.hub.publishing`.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hermes.skills.hub.errors import HubError, NotThere, RateSpent, Unreachable
from hermes.skills.hub.web import Reply, Web, host_of

MOST_ARCHIVE = 64 * 1024 * 1024
JSON = "application/vnd.github+json"
SHA = "application/vnd.github.sha"
SET_TOKEN = "`hermes config set GITHUB_TOKEN …` (a token without any rights will do)"


class GitHubApi:
    """`token` may be empty: then GitHub answers 60 questions an hour."""

    def __init__(self, web: Web, address: str, token: str = "") -> None:
        self._web, self._address, self._token = web, address.rstrip("/"), token
        self._archives: dict[tuple[str, str], bytes] = {}

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    async def commit(self, repo: str, ref: str = "") -> str:
        """The id of the newest commit of a branch or tag."""
        wanted = quote(ref or "HEAD", safe="/")
        reply = await self.ask(f"/repos/{repo}/commits/{wanted}", accept=SHA)
        if reply.status == 422:
            raise NotThere(f"{repo} has no branch, tag or commit {ref or 'HEAD'}")
        commit = reply.body.decode("ascii", "replace").strip()
        if len(commit) != 40 or not commit.isalnum():
            raise Unreachable(f"{host_of(self._address)} gave no commit for {repo}")
        return commit

    async def archive(self, repo: str, commit: str) -> bytes:
        """All files of the repository as a .tar.gz; fetched once in a run."""
        key = (repo, commit)
        if key not in self._archives:
            reply = await self.ask(f"/repos/{repo}/tarball/{commit}", most=MOST_ARCHIVE)
            self._archives[key] = reply.body
        return self._archives[key]

    async def ask(self, path: str, *, accept: str = JSON, most: int = MOST_ARCHIVE) -> Reply:
        """Raises `NotThere`, `RateSpent`, `Unreachable` for an answer that is none."""
        reply = await self._web.get(f"{self._address}{path}", self._headers(accept), most=most)
        return self._good(path, reply)

    async def tell(self, method: str, path: str, body: Mapping[str, Any]) -> Reply:
        """Sends something; the status is for the caller to look at, but for the usual refusals."""
        url = f"{self._address}{path}"
        return self._good(path, await self._web.send(method, url, self._headers(JSON), body))

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _good(self, path: str, reply: Reply) -> Reply:
        if reply.status < 300 or reply.status == 422:
            return reply
        if self._is_limit(reply):
            raise self._spent(reply)
        if reply.status == 401:
            raise HubError("GitHub refused the token", hint=f"set a new one: {SET_TOKEN}")
        if reply.status in (403, 404, 409, 451):
            raise self._missing(path, reply)
        raise Unreachable(f"GitHub answered with status {reply.status}", hint="try again later")

    def _missing(self, path: str, reply: Reply) -> HubError:
        repo = "/".join(path.split("/")[2:4])
        if reply.status == 403:
            return HubError(
                f"GitHub does not allow this for {repo}: {said(reply)}",
                hint="the token needs the right to write to the repository",
            )
        if reply.status == 409 and "empty" in said(reply):
            hint = "make a first commit there (a README), then try again"
            return NotThere(f"{repo} is empty", hint=hint)
        hint = "check the spelling"
        if not self._token:
            hint += f"; a private one needs a token: {SET_TOKEN}"
        return NotThere(f"there is no repository, branch or commit like this in {repo}", hint=hint)

    @staticmethod
    def _is_limit(reply: Reply) -> bool:
        limited = (
            reply.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in reply.headers
        )
        return reply.status == 429 or (reply.status == 403 and limited)

    def _spent(self, reply: Reply) -> RateSpent:
        reset = reply.headers.get("x-ratelimit-reset", "")
        after = reply.headers.get("retry-after", "")
        minutes = 1
        if reset.isdigit():
            minutes = max(1, round((int(reset) - time.time()) / 60))
        elif after.isdigit():
            minutes = max(1, round(int(after) / 60))
        wait = f"wait {minutes} min"
        hint = wait if self._token else f"{wait}, or set a token: {SET_TOKEN}"
        return RateSpent(
            "GitHub answers no more questions for now: its rate limit is reached", hint=hint
        )


def said(reply: Reply) -> str:
    """The message in an answer of GitHub, on one line."""
    try:
        message = reply.json().get("message", "")
    except (HubError, AttributeError):
        message = ""
    return " ".join(str(message).split())[:200] or f"status {reply.status}"
