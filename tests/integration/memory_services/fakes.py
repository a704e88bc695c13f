"""The services as their documentation shows them: paths, headers and bodies, over facts in memory.

A fake knows nothing but what is documented: another path, header or form is a failed test.
"""

import itertools
import re
from typing import Any, ClassVar

from tests.integration.memory_services.site import Refused, Request

KEY = "key-of-the-service-0123456789"
WHEN = "2026-01-02T03:04:05Z"


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}


class Kept:
    """Facts of users, found by their words."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.facts: dict[str, dict[str, str]] = {}

    def add(self, user: str, text: str) -> str:
        name = f"m{next(self._numbers)}"
        self.facts.setdefault(user, {})[name] = text
        return name

    def of(self, user: str) -> dict[str, str]:
        return self.facts.get(user, {})

    def search(self, user: str, query: str, limit: int) -> dict[str, str]:
        asked = words(query)
        scored = {name: len(asked & words(text)) for name, text in self.of(user).items()}
        best = sorted(scored, key=lambda name: -scored[name])
        return {name: self.of(user)[name] for name in best if scored[name]} if limit else {}

    def owner(self, name: str) -> str | None:
        return next((user for user, facts in self.facts.items() if name in facts), None)


class Fake:
    """`requires` are headers that every request must have."""

    name: ClassVar[str]
    requires: ClassVar[dict[str, str]] = {"authorization": f"Bearer {KEY}"}
    settings: ClassVar[dict[str, Any]] = {}
    """For `<home>/<provider>.json`."""

    def __init__(self) -> None:
        self.kept = Kept()

    def __call__(self, request: Request) -> Any:
        for name, value in self.requires.items():
            if request.headers.get(name) != value:
                raise Refused(401, {"detail": "Invalid key"})
        return self.serve(request)

    def serve(self, request: Request) -> Any:
        raise NotImplementedError


def said(messages: list[dict[str, str]]) -> str:
    return "\n".join(message["content"] for message in messages)


class Mem0Platform(Fake):
    name = "mem0"
    requires: ClassVar = {"authorization": f"Token {KEY}"}
    settings: ClassVar = {"api": "platform"}

    def serve(self, request: Request) -> Any:
        body = request.body
        match request.method, request.path:
            case "POST", "/v3/memories/add/":
                assert set(body) <= {"user_id", "messages", "metadata", "infer"}
                self.kept.add(body["user_id"], said(body["messages"]))
                return {"event_id": "e1", "status": "PENDING"}
            case "POST", "/v3/memories/search/":
                if "user_id" in body:
                    raise Refused(400, {"error": "entity ids belong into filters"})
                user = body["filters"]["user_id"]
                return self._results(user, self.kept.search(user, body["query"], body["top_k"]))
            case "POST", "/v3/memories/":
                user = body["filters"]["user_id"]
                assert request.params["page"] == "1"
                return {"count": 1, **self._results(user, self.kept.of(user))}
        return self.one(request, request.path.removeprefix("/v1/memories/").removesuffix("/"))

    def one(self, request: Request, name: str) -> Any:
        user = self.kept.owner(name)
        if user is None:
            raise Refused(404, {"detail": "Memory not found"})
        if request.method == "GET":
            return {"id": name, "memory": self.kept.of(user)[name], "user_id": user}
        if request.method == "DELETE":
            del self.kept.of(user)[name]
            return {"message": "Memory deleted successfully!"}
        assert request.method == "PUT"
        self.kept.of(user)[name] = request.body["text"]
        return {"id": name, "text": request.body["text"]}

    def _results(self, user: str, facts: dict[str, str]) -> dict[str, Any]:
        shown = [{"id": k, "memory": text, "user_id": user} for k, text in facts.items()]
        return {"results": shown}


class Mem0Server(Mem0Platform):
    requires: ClassVar = {"x-api-key": KEY}
    settings: ClassVar = {}

    def serve(self, request: Request) -> Any:
        body = request.body
        match request.method, request.path:
            case "POST", "/memories":
                self.kept.add(body["user_id"], said(body["messages"]))
                return {"results": []}
            case "GET", "/memories":
                user = request.params["user_id"]
                return self._results(user, self.kept.of(user))
            case "POST", "/search":
                return self._results(
                    body["user_id"], self.kept.search(body["user_id"], body["query"], 10)
                )
        return self.one(request, request.path.removeprefix("/memories/"))


class Supermemory(Fake):
    name = "supermemory"

    def serve(self, request: Request) -> Any:
        body = request.body
        match request.method, request.path:
            case "POST", "/v3/documents":
                self.kept.add(body["containerTag"], body["content"])
                return {"id": "d1", "status": "queued"}
            case "POST", "/v4/search":
                found = self.kept.search(body["containerTag"], body["q"], body["limit"])
                results = [
                    {"id": k, "memory": text, "similarity": 0.9} for k, text in found.items()
                ]
                return {"results": results, "total": len(results), "timing": 1}
            case "POST", "/v4/memories":
                for memory in body["memories"]:
                    self.kept.add(body["containerTag"], memory["content"])
                return {"documentId": "d2", "memories": []}
            case "POST", "/v4/memories/list":
                (tag,) = body["containerTags"]
                held = [{"id": k, "memory": text} for k, text in self.kept.of(tag).items()]
                return {"memoryEntries": held, "pagination": {"currentPage": 1}}
            case ("DELETE" | "PATCH") as method, "/v4/memories":
                return self._change(method, body)
        raise LookupError("no such path")

    def _change(self, method: str, body: dict[str, Any]) -> Any:
        facts = self.kept.of(body["containerTag"])
        name = body.get("id") or next((k for k, v in facts.items() if v == body["content"]), "")
        if name not in facts:
            raise Refused(404, {"error": "Memory not found"})
        if method == "DELETE":
            del facts[name]
            return {"id": name, "forgotten": True}
        facts[name] = body["newContent"]
        return {"id": name, "memory": body["newContent"], "version": 2}


class Hindsight(Fake):
    name = "hindsight"

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[tuple[str, str], list[str]] = {}

    def serve(self, request: Request) -> Any:
        match = re.fullmatch(r"/v1/default/banks/([^/]+)/(.+)", request.path)
        assert match is not None
        bank, rest = match.groups()
        body = request.body
        match request.method, rest:
            case "POST", "memories":
                (item,) = body["items"]
                name = self.kept.add(bank, item["content"])
                self.documents.setdefault((bank, item["document_id"]), []).append(name)
                return {"success": True, "bank_id": bank, "items_count": 1, "async": True}
            case "POST", "memories/recall":
                self._known(bank)
                found = self.kept.search(bank, body["query"], body["max_tokens"])
                return {"results": [_unit(k, text) for k, text in found.items()]}
            case "POST", "reflect":
                return {"text": f"About {body['query']}: " + " ".join(self.kept.of(bank).values())}
            case "GET", "memories/list":
                assert request.params["state"] == "valid"
                items = [_unit(k, text) for k, text in self.kept.of(bank).items()]
                return {"items": items, "total": len(items), "limit": 100, "offset": 0}
        if (request.method, rest[:10]) == ("DELETE", "documents/"):
            if (bank, rest[10:]) not in self.documents:
                raise Refused(404, {"detail": "Document not found"})
            for name in self.documents.pop((bank, rest[10:])):
                del self.kept.of(bank)[name]
            return {"success": True}
        assert request.method == "PATCH"
        return self._curate(bank, rest.removeprefix("memories/"), body)

    def _known(self, bank: str) -> None:
        if bank not in self.kept.facts:
            raise Refused(404, {"detail": f"Bank {bank} not found"})

    def _curate(self, bank: str, name: str, body: dict[str, Any]) -> Any:
        facts = self.kept.of(bank)
        if name not in facts:
            raise Refused(404, {"detail": "Memory not found"})
        if body.get("state") == "invalidated":
            del facts[name]
        else:
            facts[name] = body["text"]
        return {"id": name}


def _unit(name: str, text: str) -> dict[str, str]:
    return {"id": name, "text": text, "type": "world", "fact_type": "world", "state": "valid"}


class RetainDb(Fake):
    name = "retaindb"
    settings: ClassVar = {"project": "app"}

    def serve(self, request: Request) -> Any:
        body, method, path = request.body, request.method, request.path
        assert (body or request.params).get("project") == "app" or method == "DELETE"
        match method, path:
            case "POST", "/v1/memory":
                assert body["write_mode"] == "async"
                self.kept.add(body["user_id"], body["content"])
                return {"success": True, "mode": "async", "trace_id": "trc_1"}
            case "POST", "/v1/memory/ingest/session":
                assert body["session_id"]
                assert all(m["timestamp"].endswith("Z") for m in body["messages"])
                self.kept.add(body["user_id"], said(body["messages"]))
                return {"job_id": "j1", "trace_id": "trc_2"}
            case "POST", "/v1/memory/search":
                found = self.kept.search(body["user_id"], body["query"], body["top_k"])
                results = [{"memory": _memory(*each), "score": 0.8} for each in found.items()]
                return {"results": results, "count": len(results), "trace_id": "trc_3"}
        if path.startswith("/v1/memory/profile/"):
            facts = self.kept.of(path.removeprefix("/v1/memory/profile/"))
            return {"memories": [_memory(*each) for each in facts.items()], "count": len(facts)}
        return self._one(request, path.removeprefix("/v1/memory/"))

    def _one(self, request: Request, name: str) -> Any:
        user = self.kept.owner(name)
        if user is None:
            raise Refused(404, {"error": {"code": "NOT_FOUND", "message": "no memory"}})
        if request.method == "PUT":
            self.kept.of(user)[name] = request.body["content"]
        else:
            assert request.method == "DELETE"
            del self.kept.of(user)[name]
        return {"success": True}


def _memory(name: str, text: str) -> dict[str, str]:
    return {"id": name, "content": text, "memory_type": "factual"}


class OpenViking(Fake):
    """Memories appear when a session is committed."""

    name = "openviking"
    requires: ClassVar = {"x-api-key": KEY, "x-openviking-account": "acme"}
    settings: ClassVar = {"account": "acme"}

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[tuple[str, str], list[str]] = {}

    def serve(self, request: Request) -> Any:
        user = request.headers["x-openviking-user"]
        return {"status": "ok", "result": self._result(user, request), "time": 0.1}

    def _result(self, user: str, request: Request) -> Any:
        body, params = request.body, request.params
        match = re.fullmatch(r"/api/v1/sessions/([^/]+)(/messages|/commit)?", request.path)
        if match is not None:
            return self._session(user, match[1], match[2], request)
        match request.method, request.path:
            case "POST", "/api/v1/search/find":
                assert body["context_type"] == ["memory"]
                found = self.kept.search(user, body["query"], body["limit"])
                memories = [_context(user, *each) for each in found.items()]
                return {"memories": memories, "resources": [], "skills": [], "total": 1}
            case "GET", "/api/v1/fs/ls":
                assert params["uri"] == "viking://~/memories"
                folder = {"name": "events", "isDir": True, "uri": "viking://user/x/memories/events"}
                files = [_context(user, *each) for each in self.kept.of(user).items()]
                return [folder, *files]
        return self._file(user, request, (params.get("uri") or body["uri"]).rpartition("/")[2])

    def _session(self, user: str, session: str, what: str | None, request: Request) -> Any:
        place = (user, session)
        if what is None:
            assert (request.method, request.params["auto_create"]) == ("GET", "true")
            self.sessions.setdefault(place, [])
            return {"session_id": session}
        messages = self.sessions[place]
        if what == "/messages":
            assert request.body["role"] in ("user", "assistant")
            messages.append(request.body["content"])
            return {"session_id": session, "message_count": len(messages)}
        for text in messages:
            self.kept.add(user, text)
        messages.clear()
        return {"session_id": session, "status": "accepted", "task_id": "t1", "archived": True}

    def _file(self, user: str, request: Request, name: str) -> Any:
        facts = self.kept.of(user)
        match request.method, request.path:
            case "GET", "/api/v1/fs/stat" if name not in facts:
                raise Refused(404, {"status": "error", "error": {"code": "NOT_FOUND"}})
            case "GET", "/api/v1/fs/stat":
                return {"name": name, "isDir": False}
            case "GET", "/api/v1/content/read":
                return facts[name]
            case "DELETE", "/api/v1/fs":
                facts.pop(name, None)
                return {"uri": request.params["uri"]}
            case "POST", "/api/v1/content/write":
                assert request.body["mode"] == "replace"
                facts[name] = request.body["content"]
                return {"uri": request.body["uri"]}
        raise LookupError("no such path")


def _context(user: str, name: str, text: str) -> dict[str, Any]:
    uri = f"viking://user/{user}/memories/{name}"
    return {
        "uri": uri,
        "abstract": text,
        "overview": None,
        "context_type": "memory",
        "isDir": False,
    }


class Honcho(Fake):
    """Concludes whatever a peer that is observed says."""

    name = "honcho"

    def __init__(self) -> None:
        super().__init__()
        self.workspaces: set[str] = set()
        self.sessions: dict[tuple[str, str], dict[str, Any]] = {}

    def serve(self, request: Request) -> Any:
        if request.path == "/v3/workspaces":
            self.workspaces.add(request.body["id"])
            return {"id": request.body["id"], "created_at": WHEN}
        match = re.fullmatch(r"/v3/workspaces/([A-Za-z0-9_-]+)/(.+)", request.path)
        assert match is not None
        workspace, rest = match.groups()
        if workspace not in self.workspaces:
            raise Refused(404, {"detail": f"Workspace {workspace} not found"})
        kind, _, name = rest.partition("/")
        return getattr(self, f"_{kind}")(workspace, name, request)

    def _queue(self, workspace: str, name: str, request: Request) -> Any:
        assert (request.method, name) == ("GET", "status")
        counts = ("total", "completed", "in_progress", "pending")
        return dict.fromkeys((f"{count}_work_units" for count in counts), 1)

    def _sessions(self, workspace: str, name: str, request: Request) -> Any:
        if not name:
            session = request.body["id"]
            self.sessions.setdefault((workspace, session), {}).update(request.body["peers"])
            return {"id": session, "is_active": True, "workspace_id": workspace, "created_at": WHEN}
        if name == "list":
            return _page([s for w, s in self.sessions if w == workspace])
        session, _, what = name.partition("/")
        peers = self.sessions[workspace, session]
        assert what == "messages"
        for message in request.body["messages"]:
            if peers[message["peer_id"]]["observe_me"]:
                self.kept.add(f"{workspace}/{message['peer_id']}", message["content"])
        return []

    def _peers(self, workspace: str, name: str, request: Request) -> Any:
        if name == "list":
            peers = {p for (w, _), each in self.sessions.items() if w == workspace for p in each}
            return _page(sorted(peers))
        peer, _, what = name.partition("/")
        facts, body = self.kept.of(f"{workspace}/{peer}"), request.body
        match request.method, what:
            case "POST", "representation":
                query = body.get("search_query")
                if query is not None:
                    facts = self.kept.search(f"{workspace}/{peer}", query, body["search_top_k"])
                lines = [f"- {text}" for text in facts.values()]
                return {"representation": "\n".join(["## Explicit", *lines])}
            case "GET", "card":
                return {"peer_card": None}
            case "POST", "chat":
                assert body["reasoning_level"] in ("minimal", "low", "medium", "high", "max")
                return {"content": f"Thought of {len(facts)} things."}
        raise LookupError("no such path")

    def _conclusions(self, workspace: str, name: str, request: Request) -> Any:
        body = request.body
        if not name:
            for each in body["conclusions"]:
                self.kept.add(f"{workspace}/{each['observed_id']}", each["content"])
            return []
        if request.method == "POST":
            peer = body["filters"]["observed_id"]
            assert peer == body["filters"]["observer_id"]
            if name == "list":
                facts = self.kept.of(f"{workspace}/{peer}")
                return {**_page([]), "items": [_conclusion(peer, *each) for each in facts.items()]}
            assert name == "query"
            facts = self.kept.search(f"{workspace}/{peer}", body["query"], body["top_k"])
            return [_conclusion(peer, *each) for each in facts.items()]
        user = self.kept.owner(name)
        if user is None or not user.startswith(f"{workspace}/"):
            raise Refused(404, {"detail": "Conclusion not found"})
        if request.method == "DELETE":
            del self.kept.of(user)[name]
            return None
        return _conclusion(user.partition("/")[2], name, self.kept.of(user)[name])


def _page(names: list[str]) -> dict[str, Any]:
    items = [{"id": name, "created_at": WHEN} for name in names]
    return {"items": items, "total": len(items), "page": 1, "size": 50, "pages": 1}


def _conclusion(peer: str, name: str, text: str) -> dict[str, str]:
    return {
        "id": name,
        "content": text,
        "observer_id": peer,
        "observed_id": peer,
        "created_at": WHEN,
    }
