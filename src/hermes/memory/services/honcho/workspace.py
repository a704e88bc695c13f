"""A workspace of Honcho and the two peers we care about, over its HTTP interface."""

from typing import Any

from hermes.memory.provider import Dicts
from hermes.memory.services.http import SLOW_SECONDS, Api, part
from hermes.memory.services.text import entry, found

PAGE = 100
"""The most the service lists at once."""


class Workspace:
    def __init__(self, api: Api, workspace: str, user: str, ai: str) -> None:
        self.api, self.name, self.user, self.ai = api, workspace, user, ai
        self._path = f"/v3/workspaces/{part(workspace)}"
        self._known: set[str] = set()

    def say(self, session: str, said: str, answered: str) -> None:
        self.ensure(session)
        texts = ((self.user, said), (self.ai, answered))
        messages = [{"peer_id": peer, "content": text} for peer, text in texts if text]
        path = f"{self._path}/sessions/{part(session)}/messages"
        self.api.write("POST", path, {"messages": messages})

    def conclude(self, text: str, session: str) -> None:
        self.ensure(session)
        body = {"conclusions": [{"content": text, **self._about_user}]}
        self.api.write("POST", f"{self._path}/conclusions", body)

    def ensure(self, session: str) -> None:
        """Get or create the workspace and the session with both peers; Honcho reasons about the
        user only."""
        if session in self._known:
            return
        self.api.read("POST", "/v3/workspaces", {"id": self.name})
        peers = {
            self.user: {"observe_me": True, "observe_others": False},
            self.ai: {"observe_me": False, "observe_others": False},
        }
        self.api.read("POST", f"{self._path}/sessions", {"id": session, "peers": peers})
        self._known.add(session)

    def query(self, question: str, limit: int) -> Dicts:
        body = {"query": question, "top_k": min(limit, PAGE), "filters": self._about_user}
        answer = self.api.read("POST", f"{self._path}/conclusions/query", body)
        return [entry(each, "content") for each in found(answer)]

    def conclusions(self, limit: int) -> Dicts:
        answer = self._list("conclusions", {"filters": self._about_user}, limit)
        return [entry(each, "content") for each in answer]

    def holds(self, conclusion: str) -> bool:
        """Whether there is such a conclusion about the user."""
        held: Any = self.api.read("GET", self._conclusion(conclusion)) if conclusion else None
        return isinstance(held, dict) and held.get("observed_id") == self.user

    def delete(self, conclusion: str) -> bool:
        if not self.holds(conclusion):
            return False
        self.api.write("DELETE", self._conclusion(conclusion))
        return True

    def representation(self, peer: str, query: str, limit: int) -> str:
        """What Honcho holds of a peer, all or what fits a question."""
        body: dict[str, Any] = {"max_conclusions": limit}
        if query:
            body |= {"search_query": query, "search_top_k": limit}
        answer = self.api.read("POST", f"{self._path}/peers/{part(peer)}/representation", body)
        return _text(answer, "representation")

    def card(self, peer: str) -> list[str]:
        answer: Any = self.api.read("GET", f"{self._path}/peers/{part(peer)}/card")
        lines = answer.get("peer_card") if isinstance(answer, dict) else None
        return [str(line) for line in lines or ()]

    def ask(self, question: str, level: str) -> str:
        body = {"query": question, "reasoning_level": level}
        path = f"{self._path}/peers/{part(self.user)}/chat"
        return _text(self.api.read("POST", path, body, seconds=SLOW_SECONDS), "content")

    def peers(self) -> Dicts:
        return self._list("peers", {}, PAGE)

    def sessions(self) -> Dicts:
        return self._list("sessions", {}, PAGE)

    def pending(self) -> int | None:
        """How much Honcho still has to think about; None when there is no such workspace."""
        answer: Any = self.api.read("GET", f"{self._path}/queue/status")
        if not isinstance(answer, dict):
            return None
        counts = (answer.get(key) for key in ("pending_work_units", "in_progress_work_units"))
        return sum(count for count in counts if isinstance(count, int))

    @property
    def _about_user(self) -> dict[str, str]:
        return {"observer_id": self.user, "observed_id": self.user}

    def _conclusion(self, name: str) -> str:
        return f"{self._path}/conclusions/{part(name)}"

    def _list(self, what: str, body: dict[str, Any], limit: int) -> Dicts:
        size = {"size": min(limit, PAGE)}
        return found(self.api.read("POST", f"{self._path}/{what}/list", body, params=size), "items")


def _text(answer: Any, key: str) -> str:
    text = answer.get(key) if isinstance(answer, dict) else None
    return text.strip() if isinstance(text, str) else ""
