"""Every source against a server on this machine that speaks as the real one does."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import (
    HubError,
    HubRateLimited,
    InvalidContent,
    NotAvailable,
    SourceUnreachable,
)
from hermes.skills.hub.hub import Hub, HubOptions
from tests.integration.skills_hub.wire import (
    GitHub,
    SkillsSh,
    Static,
    answer,
    below,
    skill,
    tarball,
)

PDF = skill("pdf", files={"scripts/fill.py": b"print(1)\n"})


async def test_a_skill_of_a_repository_is_fetched_as_it_is(hub: Hub, github: GitHub):
    sha = github.commit("any/repo", {**below("skills/pdf", PDF), "README.md": b"# all\n"})
    one = await hub.prepare("any/repo/skills/pdf")
    assert one.files == PDF
    assert one.origin.version == sha
    assert one.trust == "community"


async def test_a_repository_is_found_by_the_name_of_its_skill(hub: Hub, github: GitHub):
    github.commit(
        "any/repo", {**below("skills/.curated/pdf", PDF), **below("b/docs", skill("word"))}
    )
    assert (await hub.prepare("any/repo/pdf")).name == "pdf"
    assert (await hub.prepare("any/repo/word")).name == "word"


async def test_a_repository_with_one_skill_needs_no_path(hub: Hub, github: GitHub):
    github.commit("any/repo", PDF)
    assert (await hub.prepare("https://github.com/any/repo")).name == "pdf"


async def test_a_branch_can_be_named(hub: Hub, github: GitHub):
    github.commit("any/repo", below("pdf", skill("pdf", "Old.")))
    github.commit("any/repo", below("pdf", skill("pdf", "New.")), branch="next")
    assert b"New." in (await hub.prepare("any/repo/pdf@next")).files["SKILL.md"]
    page = "https://github.com/any/repo/tree/next/pdf"
    assert b"New." in (await hub.prepare(page)).files["SKILL.md"]


async def test_missing_skill_is_refused_with_the_available_ones(hub: Hub, github: GitHub):
    github.commit("any/repo", below("skills/pdf", PDF))
    with pytest.raises(NotAvailable) as missing:
        await hub.prepare("any/repo/excel")
    assert "skills/pdf" in missing.value.hint
    with pytest.raises(NotAvailable):
        await hub.prepare("any/repo/pdf@nowhere")
    with pytest.raises(NotAvailable) as unseen:
        await hub.prepare("no/body/pdf")
    assert "GITHUB_TOKEN" in unseen.value.hint


async def test_a_spent_rate_limit_says_how_to_get_more(hub: Hub, github: GitHub):
    github.limited = True
    with pytest.raises(HubRateLimited) as spent:
        await hub.prepare("any/repo/pdf")
    assert "hermes config set GITHUB_TOKEN" in spent.value.hint


async def test_the_token_goes_to_github_and_not_to_the_host_it_redirects_to(options, github):
    github.commit("any/repo", PDF)
    with_token = HubOptions(options.root, token="ghp_x", addresses=options.addresses)
    async with Hub(with_token) as hub:
        await hub.prepare("any/repo")
    assert {request.headers["authorization"] for request in github.requests} == {"Bearer ghp_x"}
    assert len(github.archives.requests) == 1
    assert "authorization" not in github.archives.requests[0].headers


async def test_a_redirect_into_the_network_is_not_followed(hub: Hub, github: GitHub, site: Static):
    for place in ("http://localhost:1/x", "https://192.168.0.1/x", "file:///etc/passwd"):
        site.pages["/.well-known/skills/index.json"] = answer(b"", 302, location=place)
        with pytest.raises(HubError):
            await hub.prepare(site.url)


async def test_looking_twice_downloads_a_repository_once(options: HubOptions, github: GitHub):
    github.commit("known/skills", below("pdf", PDF))
    for _ in range(2):
        async with Hub(options) as hub:
            found = await hub.browse("github")
    assert [offer.identifier for offer in found.offers] == ["known/skills/pdf"]
    assert "What pdf does" in found.offers[0].description
    assert len(github.archives.requests) == 1


async def test_skills_sh_finds_and_github_delivers(hub: Hub, github: GitHub, skills_sh: SkillsSh):
    github.commit("any/repo", below("deep/pdf", PDF))
    skills_sh.entries = [
        {
            "id": "any/repo/pdf",
            "skillId": "pdf",
            "name": "pdf",
            "installs": 7,
            "source": "any/repo",
        },
        {"id": "x", "skillId": "pdf", "name": "pdf", "installs": 1, "source": "some.site"},
    ]
    found = await hub.search("pdf", "skills-sh")
    assert [(one.identifier, one.installs) for one in found.offers] == [
        ("skills-sh/any/repo/pdf", 7)
    ]
    assert (await hub.prepare("skills-sh/any/repo/pdf")).files == PDF


async def test_search_continues_when_one_source_fails(hub, github, skills_sh):
    github.commit("known/skills", below("pdf", PDF))
    hub.taps.add("gone/repo")
    found = await hub.search("pdf")
    assert [offer.name for offer in found.offers] == ["pdf"]
    assert any(problem.startswith("tap:") for problem in found.problems)


async def test_a_service_that_fails_for_two_repositories_is_named_once(options, github):
    github.limited = True
    ends = msgspec.structs.replace(options.addresses, repositories=("known/skills", "more/skills"))
    async with Hub(msgspec.structs.replace(options, addresses=ends)) as hub:
        found = await hub.search("pdf")
    assert [problem.partition(":")[0] for problem in found.problems] == ["github"]


def index(site: Static, *skills: dict[str, object], folder: str = "skills") -> None:
    site.pages[f"/.well-known/{folder}/index.json"] = answer({"skills": skills})


async def test_a_site_lists_its_files(hub: Hub, site: Static):
    index(site, {"name": "pdf", "description": "d", "files": [*PDF, ".hidden"]}, {"name": "b"})
    for name, data in PDF.items():
        site.pages[f"/.well-known/skills/pdf/{name}"] = answer(data)
    found = await hub.search(site.url, "well-known")
    assert found.offers[0].identifier == f"{site.url}/.well-known/skills/pdf"
    assert (await hub.prepare(found.offers[0].identifier)).files == PDF
    assert (await hub.prepare(f"{site.url}#pdf")).files == PDF
    with pytest.raises(NotAvailable) as several:
        await hub.prepare(site.url)
    assert "pdf, b" in several.value.hint


async def test_a_name_with_a_blank_is_found_again_and_a_bad_one_hides_no_other(hub, site):
    index(site, {"name": "../up"}, {"name": "my notes", "files": ["SKILL.md"]})
    site.pages["/.well-known/skills/my notes/SKILL.md"] = answer(skill("my-notes")["SKILL.md"])
    (offer,) = (await hub.search(site.url, "well-known")).offers
    assert (await hub.prepare(offer.identifier)).name == "my-notes"


BAD = [{"name": 7}, "word", None, {"description": "no name"}, {"name": "x", "files": "SKILL.md"}]


async def test_bad_entries_of_an_index_hide_no_good_ones(hub: Hub, site: Static):
    index(site, *BAD, {"name": "pdf", "files": ["SKILL.md"]})
    site.pages["/.well-known/skills/pdf/SKILL.md"] = answer(PDF["SKILL.md"])
    found = await hub.search(site.url, "well-known")
    assert [offer.name for offer in found.offers] == ["pdf"]
    (problem,) = found.problems
    assert problem.startswith("the index of 127.0.0.1: 5 skills left out, as not understood;")
    assert "number 1: Expected `str`, got `int`" in problem
    assert (await hub.prepare(f"{site.url}#pdf")).name == "pdf"
    assert len(hub.warnings()) == 1
    assert hub.warnings() == [], "said once"


async def test_binary_index_counts_as_unreachable(hub: Hub, site: Static):
    page = "/.well-known/skills/index.json"
    site.pages[page] = answer(b'{"\xff": 1, "skills": []}')
    with pytest.raises(HubError):
        await hub.prepare(site.url)
    site.pages[page] = answer(b'{"skills": [{"name": "\xff"}, {"name": "pdf"}]}')
    assert [one.name for one in (await hub.search(site.url, "well-known")).offers] == ["pdf"]


async def test_bad_entries_of_skills_sh_hide_no_good_ones(hub: Hub, skills_sh: SkillsSh):
    skills_sh.entries = [
        {"name": "pdf", "installs": "many", "source": "any/repo"},
        {"name": "pdf", "skillId": "pdf", "source": "any/repo"},
    ]
    found = await hub.search("pdf", "skills-sh")
    assert [offer.identifier for offer in found.offers] == ["skills-sh/any/repo/pdf"]
    assert found.problems[0].startswith("skills.sh: 1 skill left out, as not understood;")


async def test_a_site_offers_archives_with_a_digest(hub: Hub, site: Static):
    data = tarball(PDF, top="")
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    entry = {"name": "pdf", "type": "archive", "url": "pdf.tar.gz", "digest": digest}
    index(site, entry, folder="agent-skills")
    site.pages["/.well-known/agent-skills/pdf.tar.gz"] = answer(data)
    one = await hub.prepare(site.url)
    assert (one.files, one.origin.version) == (PDF, digest)
    site.pages["/.well-known/agent-skills/pdf.tar.gz"] = answer(tarball(skill("pdf", "Evil"), ""))
    with pytest.raises(InvalidContent, match="does not match the hash"):
        await hub.prepare(site.url)


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "a\\..\\b", "x/./y", "C:x"])
async def test_a_site_cannot_name_files_elsewhere(hub: Hub, site: Static, name: str):
    index(site, {"name": "pdf", "files": ["SKILL.md", name]})
    site.pages["/.well-known/skills/pdf/SKILL.md"] = answer(PDF["SKILL.md"])
    with pytest.raises(InvalidContent):
        await hub.prepare(site.url)


async def test_a_site_without_https_is_not_asked(hub: Hub):
    with pytest.raises(HubError, match="https"):
        await hub.prepare("http://example.com")


async def test_invalid_index_counts_as_unreachable(hub: Hub, site: Static):
    site.pages["/.well-known/skills/index.json"] = answer(b"<html>")
    with pytest.raises(SourceUnreachable):
        await hub.prepare(site.url)


async def test_a_tap_is_browsed(hub: Hub, github: GitHub, site: Static):
    github.commit("my/tap", below("pdf", PDF))
    index(site, {"name": "word", "description": "d", "files": ["SKILL.md"]})
    hub.taps.add(hub.taps.normalize("my/tap"))
    hub.taps.add(hub.taps.normalize(f"{site.url}/"))
    found = await hub.browse()
    assert {offer.identifier for offer in found.offers} == {
        "my/tap/pdf",
        f"{site.url}/.well-known/skills/word",
    }
    assert (await hub.prepare("my/tap/pdf", "tap")).source == "github"


async def test_a_marketplace_offers_the_skills_of_its_plugins(hub: Hub, github: GitHub):
    market = {
        "name": "m",
        "metadata": {"pluginRoot": "./plugins"},
        "plugins": [
            {"name": "docs", "source": "./docs", "description": "Documents."},
            {"name": "one", "source": "./", "skills": ["./extra/word"]},
            {"name": "far", "source": {"source": "github", "repo": "other/repo"}},
            {"name": "npm", "source": {"source": "npm", "package": "x"}},
            {"name": "out", "source": "../../x"},
        ],
    }
    github.commit(
        "known/market",
        {
            ".claude-plugin/marketplace.json": json.dumps(market).encode(),
            **below("plugins/docs/skills/pdf", PDF),
            **below("plugins/extra/word", skill("word")),
        },
    )
    github.commit("other/repo", below("skills/far-skill", skill("far-skill")))
    start = "claude-marketplace/known/market"
    assert (await hub.prepare(f"{start}/docs/pdf")).files == PDF
    assert (await hub.prepare(f"{start}/one/word")).name == "word"
    assert (await hub.prepare(f"{start}/far")).name == "far-skill"
    with pytest.raises(HubError, match="unsupported source: npm"):
        await hub.prepare(f"{start}/npm")
    with pytest.raises(NotAvailable, match="leads out"):
        await hub.prepare(f"{start}/out")


@pytest.mark.parametrize("name", ["clawhub", "lobehub"])
async def test_unsupported_sources_are_named_in_the_error(hub: Hub, name: str):
    with pytest.raises(UsageError, match=f"{name} is not supported yet"):
        await hub.prepare(f"{name}/pdf")
    with pytest.raises(UsageError, match=f"{name} is not supported yet"):
        await hub.search("pdf", name)


async def test_official_skills_are_found_by_name_and_trusted(options: HubOptions, tmp_path: Path):
    folder = tmp_path / "research" / "arxiv"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(skill("arxiv")["SKILL.md"])
    async with Hub(HubOptions(options.root, official=tmp_path)) as hub:
        assert [one.identifier for one in (await hub.browse()).offers] == [
            "official/research/arxiv"
        ]
        for identifier in ("arxiv", "official/research/arxiv", "official/arxiv"):
            one = await hub.prepare(identifier)
            assert (one.trust, one.category) == ("official", "research")


async def test_local_folder_is_a_source(hub: Hub, tmp_path: Path):
    (tmp_path / "SKILL.md").write_bytes(PDF["SKILL.md"])
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("secret")
    one = await hub.prepare(str(tmp_path))
    assert (set(one.files), one.source) == ({"SKILL.md"}, "folder")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidContent, match="link"):
        await hub.prepare(str(tmp_path))
