"""Archives and servers that mean harm: nothing of theirs reaches the disk."""

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from hermes.core.testing.http_server import Outgoing
from hermes.skills.hub.contents import HubError, InvalidContent, SourceUnreachable
from hermes.skills.hub.hub import Hub
from hermes.skills.hub.sources import HubHttpClient
from tests.integration.skills_hub.wire import GitHub, Static, answer, bomb, skill, tar_of

HEAD = skill("pdf")["SKILL.md"]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(f"repo-abc/{name}")
    info.type, info.linkname = kind, link
    return info


HOSTILE = {
    "climbs out": tar_of((member("SKILL.md"), HEAD), (member("../../../../evil"), b"x")),
    "is absolute": tar_of((member("SKILL.md"), HEAD), (member("//etc/evil"), b"x")),
    "links": tar_of((member("SKILL.md"), HEAD), (member("a", tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "links hard": tar_of(
        (member("SKILL.md"), HEAD), (member("a", tarfile.LNKTYPE, "/etc/passwd"), b"")
    ),
    "has a pipe": tar_of((member("SKILL.md"), HEAD), (member("a", tarfile.FIFOTYPE), b"")),
    "has a device": tar_of((member("SKILL.md"), HEAD), (member("a", tarfile.CHRTYPE), b"")),
    "has a file twice": tar_of((member("SKILL.md"), HEAD), (member("SKILL.md"), b"other")),
    "differs in case": tar_of((member("SKILL.md"), HEAD), (member("skill.md"), b"other")),
    "is file and folder": tar_of(
        (member("SKILL.md"), HEAD), (member("a"), b""), (member("a/b"), b"")
    ),
    "hides a newline": tar_of((member("SKILL.md"), HEAD), (member("a\nb"), b"")),
    "has many files": tar_of(
        (member("SKILL.md"), HEAD), *((member(f"{number}.md"), b"x") for number in range(200))
    ),
    "is large": tar_of((member("SKILL.md"), HEAD), (member("a"), bytes(11 * 1024 * 1024))),
    "is cut": tar_of((member("SKILL.md"), HEAD), (member("a"), bytes(range(256)) * 999))[:-300],
    "is no archive": b"not an archive at all",
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_invalid_archive_is_refused(hub: Hub, github: GitHub, user_home: Path, what: str):
    sha = github.commit("any/repo", {"SKILL.md": HEAD})
    github.serve("any/repo", sha, HOSTILE[what])
    with pytest.raises(HubError):
        await hub.prepare("any/repo")
    assert not list(user_home.rglob("evil"))
    assert not hub.store.quarantine.exists()


async def test_an_archive_that_never_ends_is_given_up(hub: Hub, github: GitHub):
    sha = github.commit("any/repo", {"SKILL.md": HEAD})
    packed = bomb(600)
    assert len(packed) < 1024 * 1024
    github.serve("any/repo", sha, packed)
    with pytest.raises(InvalidContent, match="unpacks to more"):
        await hub.prepare("any/repo")


def zipped(*entries: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in entries:
            archive.writestr(info, data)
    return out.getvalue()


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    "data",
    [
        zipped((zipfile.ZipInfo("SKILL.md"), HEAD), (zipfile.ZipInfo("../evil"), b"x")),
        zipped((zipfile.ZipInfo("SKILL.md"), HEAD), (zip_link(), b"/etc/passwd")),
        zipped((zipfile.ZipInfo("SKILL.md"), HEAD), (zipfile.ZipInfo("a"), bytes(11 << 20))),
        zipped((zipfile.ZipInfo("SKILL.md"), HEAD))[:-30],
    ],
    ids=["climbs out", "links", "is large", "is cut"],
)
async def test_invalid_zip_is_refused(hub: Hub, site: Static, data: bytes):
    digest = hashlib.sha256(data).hexdigest()
    entry = {"name": "pdf", "type": "archive", "url": "p.zip", "digest": f"sha256:{digest}"}
    site.pages["/.well-known/skills/index.json"] = answer({"skills": [entry]})
    site.pages["/.well-known/skills/p.zip"] = answer(data)
    with pytest.raises(InvalidContent):
        await hub.prepare(site.url)


async def test_an_answer_that_never_ends_is_given_up(hub: Hub, site: Static):
    piece = b"[" * 1024 * 1024
    site.pages["/.well-known/skills/index.json"] = Outgoing(200, {}, [piece] * 6, chunked=True)
    with pytest.raises(SourceUnreachable, match="more than"):
        await hub.prepare(site.url)


async def test_very_slow_server_times_out(site: Static):
    site.pages["/drip"] = Outgoing(200, {}, [b"a", 0.02] * 10_000, chunked=True)
    web = HubHttpClient(seconds=0.3)
    with pytest.raises(SourceUnreachable, match="in time"):
        await web.get(f"{site.url}/drip")
    await web.close()


async def test_redirects_in_a_circle_end(hub: Hub, site: Static):
    path = "/.well-known/skills/index.json"
    site.pages[path] = answer(b"", 302, location=f"{site.url}{path}")
    with pytest.raises(SourceUnreachable, match="redirects more than"):
        await hub.prepare(site.url)
    assert len(site.requests) < 10


async def test_a_skill_that_does_not_load_is_refused_with_the_reason(hub: Hub, github: GitHub):
    github.commit("any/repo", {"SKILL.md": b"---\nname: [\n---\n"})
    with pytest.raises(HubError) as refused:
        await hub.prepare("any/repo")
    assert "SKILL.md" in str(refused.value)


def test_escape_sequences_do_not_reach_the_terminal(hermes, github: GitHub):
    text = '---\nname: pdf\ndescription: "a \\e]0;owned\\a \\e[2J b"\n---\n\nDo it.\n'
    github.commit("any/repo", {"SKILL.md": text.encode()})
    code, out, _ = hermes("inspect", "any/repo", "--text")
    assert code == 0
    assert "\x1b" not in out
