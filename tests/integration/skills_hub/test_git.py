"""Real git: a repository on the disk, behind `git daemon`, and over smart HTTP."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import HubError, InvalidContent, NotAvailable, SourceUnreachable
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.repositories import GitSource
from tests.cases import cases
from tests.integration.skills_hub.wire import skill

CASES = cases(__file__)

PDF = skill("pdf", files={"scripts/fill.py": b"print(1)\n"})


def git(*arguments: str, cwd: Path) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "more") -> str:
    git("add", ".", cwd=folder)
    git("commit", "--quiet", "-m", message, cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "served" / "upstream.git"
    for name, data in PDF.items():
        path = folder / "skills/pdf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    git("init", "--quiet", cwd=folder)
    commit(folder)
    return folder


@pytest.fixture
def daemon(repository: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served = repository.parent
    process = subprocess.Popen(
        [
            "git", "daemon", "--export-all", "--reuseaddr", "--listen=127.0.0.1",
            f"--port={port}", f"--base-path={served}", str(served),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            assert process.poll() is None
            time.sleep(0.02)
    yield f"git://127.0.0.1:{port}/upstream.git"
    process.terminate()
    process.wait()


class Backend(BaseHTTPRequestHandler):
    """`git http-backend`, the server side of git over HTTP, as a CGI program."""

    root: Path

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._run(b"")

    def do_POST(self) -> None:
        self._run(self.rfile.read(int(self.headers.get("content-length", 0))))

    def _run(self, data: bytes) -> None:
        path, _, query = self.path.partition("?")
        variables = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(data)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=data, env=variables, capture_output=True, check=True
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def smart_http(repository: Path) -> Iterator[str]:
    handler = type("Served", (Backend,), {"root": repository.parent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/upstream.git"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def plain_http(repository: Path) -> Iterator[str]:
    """A web server that knows nothing of git, with a repository as files."""
    served = repository.parent / "plain.git"
    git("clone", "--quiet", "--bare", str(repository), str(served), cwd=repository.parent)
    git("update-server-info", cwd=served)
    handler = partial(Quiet, directory=str(served.parent))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/plain.git"
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


async def test_a_repository_on_the_disk(hub: Hub, repository: Path):
    one = await hub.prepare(f"file://{repository}")
    assert one.files == PDF
    assert one.origin.version == git("rev-parse", "HEAD", cwd=repository)
    assert (one.source, one.trust) == ("git", "community")


async def test_a_repository_behind_git_daemon(hub: Hub, daemon: str):
    assert (await hub.prepare(f"{daemon}#:skills/pdf")).files == PDF


async def test_a_repository_over_smart_http(hub: Hub, smart_http: str):
    one = await hub.prepare(smart_http)
    assert one.files == PDF
    source, identifier = hub.sources.resolve(smart_http)
    assert await source.version(identifier) == one.origin.version


async def test_a_repository_on_a_plain_web_server(hub: Hub, plain_http: str):
    one = await hub.prepare(f"{plain_http}#main:skills/pdf")
    assert one.files == PDF
    source, identifier = hub.sources.resolve(plain_http)
    assert await source.version(identifier) == one.origin.version


async def test_a_plain_web_server_may_not_send_more_either(repository: Path, plain_http: str):
    (repository / "film.bin").write_bytes(os.urandom(200_000))
    commit(repository)
    git("rm", "--quiet", "film.bin", cwd=repository)
    commit(repository)
    served = repository.parent / "plain.git"
    git("fetch", "--quiet", str(repository), "+main:main", cwd=served)
    git("update-server-info", cwd=served)
    with pytest.raises(InvalidContent, match=r"larger than 100\.0 kB"):
        await GitSource("/usr/bin/git", most=100_000).fetch(plain_http)


async def test_a_branch_and_a_tag_can_be_named(hub: Hub, repository: Path):
    first = git("rev-parse", "HEAD", cwd=repository)
    git("tag", "-a", "v1", "-m", "first", cwd=repository)
    git("checkout", "--quiet", "-b", "next", cwd=repository)
    (repository / "skills/pdf/more.md").write_text("more\n")
    second = commit(repository)
    git("checkout", "--quiet", "main", cwd=repository)
    url = f"file://{repository}"
    assert "more.md" in (await hub.prepare(f"{url}#next:skills/pdf")).files
    assert "more.md" not in (await hub.prepare(f"{url}#v1")).files
    source, _ = hub.sources.resolve(url)
    assert await source.version(f"{url}#v1") == first
    assert await source.version(f"{url}#next") == second
    assert await source.version(f"{url}#:pdf") == first


async def test_no_hook_or_filter_of_the_repository_runs(hub, repository, tmp_path, user_home):
    ran = tmp_path / "ran"
    hook = repository / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    commit(repository)
    (user_home / ".gitconfig").write_text(f'[filter "evil"]\n  smudge = touch {ran}\n')
    assert (await hub.prepare(f"file://{repository}")).files == PDF
    assert not ran.exists()


async def test_links_and_other_repositories_in_it_are_refused(hub: Hub, repository: Path):
    (repository / "skills/pdf/notes").symlink_to("/etc/passwd")
    commit(repository)
    with pytest.raises(InvalidContent, match="link"):
        await hub.prepare(f"file://{repository}")
    git("rm", "--quiet", "skills/pdf/notes", cwd=repository)
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},skills/pdf/sub", cwd=repository)
    git("commit", "--quiet", "-m", "submodule", cwd=repository)
    with pytest.raises(InvalidContent, match="another repository"):
        await hub.prepare(f"file://{repository}")


async def test_a_repository_that_is_too_large_is_given_up(repository: Path):
    (repository / "film.bin").write_bytes(os.urandom(200_000))
    commit(repository)
    with pytest.raises(InvalidContent, match=r"larger than 100\.0 kB"):
        await GitSource("/usr/bin/git", most=100_000).fetch(f"file://{repository}")


async def test_a_server_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        with pytest.raises(SourceUnreachable):
            await GitSource("/usr/bin/git", stalled=1).fetch(url)


async def test_missing_setup_is_reported(hub: Hub, repository: Path, tmp_path: Path):
    with pytest.raises(NotAvailable):
        await hub.prepare(f"file://{repository}#nowhere:pdf")
    with pytest.raises(NotAvailable) as missing:
        await hub.prepare(f"file://{repository}#:excel")
    assert "skills/pdf" in missing.value.hint
    with pytest.raises((NotAvailable, SourceUnreachable)):
        await hub.prepare(f"file://{tmp_path}/nothing.git")


async def test_inaccessible_repository_fails_without_a_prompt(hub: Hub, smart_http: str):
    """A server that wants a password gets none, and the user is not asked for one."""

    class Closed(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Closed)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(SourceUnreachable) as refused:
            await hub.prepare(f"http://127.0.0.1:{server.server_address[1]}/x.git")
        assert "ssh" in refused.value.hint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("address", CASES["addresses that could run something are not used"])
async def test_addresses_that_could_run_something_are_not_used(hub: Hub, address: str):
    with pytest.raises((UsageError, HubError)):
        await hub.prepare(address)


async def test_all_skills_of_a_repository_are_listed_with_identifiers(repository: Path, hub: Hub):
    (repository / "skills/word").mkdir()
    (repository / "skills/word/SKILL.md").write_bytes(skill("word")["SKILL.md"])
    commit(repository)
    address = f"file://{repository}"
    found = [offer.identifier for offer in await hub.list_place(address)]
    assert found == [f"{address}#:skills/pdf", f"{address}#:skills/word"]
    assert (await hub.prepare(found[1])).name == "word"
    assert len(await hub.list_place(f"{address}#main:skills/pdf")) == 1
