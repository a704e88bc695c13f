"""Wire-level fakes on loopback: GitHub's REST API, skills.sh and a site with a well-known index.

They imitate the documented requests and answers, nothing else; the client is the real one.
"""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from urllib.parse import parse_qs, unquote, urlsplit

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest

Files = dict[str, bytes]


def skill(name: str, text: str = "Do it well.", files: Files | None = None) -> Files:
    head = (
        f"---\nname: {name}\ndescription: What {name} does, and when.\n---\n\n# {name}\n\n{text}\n"
    )
    return {"SKILL.md": head.encode(), **(files or {})}


def below(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": data for name, data in files.items()}


def tarball(files: Files, top: str = "repo-abc") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{top}/{name}" if top else name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return an archive with any members, valid or not."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def bomb(mebibytes: int) -> bytes:
    """A small archive that unpacks to a lot."""
    size = mebibytes * 1024 * 1024
    header = tarfile.TarInfo("repo-abc/zeros")
    header.size = size
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as packed:
        packed.write(header.tobuf())
        for _ in range(mebibytes):
            packed.write(bytes(1024 * 1024))
        packed.write(bytes(1024))
    return out.getvalue()


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def answer(body: object, status: int = 200, **headers: str) -> Outgoing:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Outgoing(
        status, {key.replace("_", "-"): value for key, value in headers.items()}, [data]
    )


class Server:
    """One loopback server that remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self._server = LoopbackServer(self._respond)
        self.url = f"http://127.0.0.1:{self._server.port}"

    def close(self) -> None:
        self._server.close()

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        return self.respond(request)

    def respond(self, request: RecordedRequest) -> Outgoing:
        raise NotImplementedError


class Static(Server):
    """Fixed answers by path: a site, the store of archives, skills.sh."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Outgoing] = {}

    def respond(self, request: RecordedRequest) -> Outgoing:
        return self.pages.get(unquote(urlsplit(request.path).path), answer({}, 404))


class SkillsSh(Server):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[dict[str, object]] = []

    def respond(self, request: RecordedRequest) -> Outgoing:
        parts = urlsplit(request.path)
        if parts.path != "/api/search":
            return answer({}, 404)
        query = parse_qs(parts.query)["q"][0]
        return answer({"skills": [one for one in self.entries if query in str(one["name"])]})


class GitHub(Server):
    """Repositories with one branch of history each, and what is sent to them."""

    def __init__(self) -> None:
        super().__init__()
        self.archives = Static()
        """A host of its own, as codeload is."""
        self.commits: dict[tuple[str, str], Files] = {}
        self.heads: dict[tuple[str, str], str] = {}
        self.blobs: dict[str, bytes] = {}
        self.trees: dict[str, list[dict[str, str | None]]] = {}
        self.bases: dict[str, str] = {}
        self.made: dict[str, dict[str, object]] = {}
        self.pulls: list[dict[str, str]] = []
        self.empty: set[str] = set()
        """Repositories without a commit."""
        self.limited = False
        self.writable = True

    def close(self) -> None:
        self.archives.close()
        super().close()

    def commit(self, repo: str, files: Files, branch: str = "main") -> str:
        """A new newest commit."""
        sha = hashlib.sha1(repr((repo, branch, sorted(files.items()))).encode()).hexdigest()
        self.commits[repo, sha] = files
        self.heads[repo, branch] = sha
        self.serve(repo, sha, tarball(files))
        return sha

    def serve(self, repo: str, sha: str, archive: bytes) -> None:
        self.archives.pages[f"/{repo}/{sha}"] = answer(archive)

    def respond(self, request: RecordedRequest) -> Outgoing:
        if self.limited:
            reset = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "4102444800"}
            return answer({"message": "API rate limit exceeded"}, 403, **reset)
        parts = urlsplit(request.path)
        segments = unquote(parts.path).strip("/").split("/")
        if segments[0] != "repos" or len(segments) < 3:
            return answer({"message": "Not Found"}, 404)
        repo = "/".join(segments[1:3])
        rest = segments[3:]
        if request.method == "POST":
            if not request.headers.get("authorization"):
                return answer({"message": "Requires authentication"}, 401)
            if not self.writable:
                return answer({"message": "Resource not accessible by token"}, 403)
            return self._taken(repo, rest, request.body)
        return self._asked(repo, rest, parts.query, request)

    def _asked(self, repo: str, rest: list[str], query: str, request: RecordedRequest) -> Outgoing:
        known = [branch for name, branch in self.heads if name == repo]
        if repo in self.empty and rest:
            return answer({"message": "Git Repository is empty."}, 409)
        if not known and repo not in self.empty:
            return answer({"message": "Not Found"}, 404)
        match rest:
            case []:
                return answer({"full_name": repo, "default_branch": "main"})
            case ["commits", *ref]:
                assert request.headers["accept"] == "application/vnd.github.sha"
                wanted = "/".join(ref)
                sha = self.heads.get((repo, "main" if wanted == "HEAD" else wanted), wanted)
                if (repo, sha) not in self.commits:
                    return answer({"message": "No commit found"}, 422)
                return answer(sha.encode())
            case ["tarball", sha]:
                return answer(b"", 302, location=f"{self.archives.url}/{repo}/{sha}")
            case ["git", "trees", sha] if "recursive=1" in query:
                files = self.commits[repo, sha]
                tree = [
                    {"path": name, "type": "blob", "mode": "100644", "sha": blob_id(data)}
                    for name, data in files.items()
                ]
                return answer({"sha": sha, "tree": tree, "truncated": False})
            case ["pulls"]:
                head = parse_qs(query)["head"][0].partition(":")[2]
                return answer([one for one in self.pulls if one["head"] == head])
        return answer({"message": "Not Found"}, 404)

    def _taken(self, repo: str, rest: list[str], body: dict[str, object]) -> Outgoing:
        match rest:
            case ["git", "blobs"]:
                assert body["encoding"] == "base64"
                data = base64.b64decode(str(body["content"]))
                self.blobs[blob_id(data)] = data
                return answer({"sha": blob_id(data)}, 201)
            case ["git", "trees"]:
                sha = hashlib.sha1(json.dumps(body).encode()).hexdigest()
                self.trees[sha], self.bases[sha] = body["tree"], str(body["base_tree"])  # type: ignore[assignment]
                return answer({"sha": sha}, 201)
            case ["git", "commits"]:
                sha = hashlib.sha1(json.dumps(body).encode() + b"c").hexdigest()
                self.made[sha] = body
                tree = str(body["tree"])
                files = dict(self.commits[repo, self.bases[tree]])
                for entry in self.trees[tree]:
                    name, blob = str(entry["path"]), entry["sha"]
                    if blob is None:
                        files.pop(name)
                    else:
                        files[name] = self.blobs[blob]
                self.commits[repo, sha] = files
                self.serve(repo, sha, tarball(files))
                return answer({"sha": sha}, 201)
            case ["git", "refs"]:
                branch = str(body["ref"]).removeprefix("refs/heads/")
                if (repo, branch) in self.heads:
                    return answer({"message": "Reference already exists"}, 422)
                self.heads[repo, branch] = str(body["sha"])
                return answer({"ref": body["ref"]}, 201)
            case ["pulls"]:
                url = f"https://github.com/{repo}/pull/{len(self.pulls) + 1}"
                self.pulls.append({**{k: str(v) for k, v in body.items()}, "html_url": url})
                return answer({"html_url": url, "number": len(self.pulls)}, 201)
        return answer({"message": "Not Found"}, 404)
