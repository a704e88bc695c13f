"""Identifiers, addresses and names of hub sources."""

from pathlib import Path

import pytest

from hermes.core.errors import ConfigError, UsageError
from hermes.skills.hub.contents import HubError, NotAvailable
from hermes.skills.hub.hub import Hub, HubOptions, source_trust
from hermes.skills.hub.registry import TapList, resolve_folder
from hermes.skills.hub.repositories import GitAddress, is_git_address, parse_git_address
from hermes.skills.hub.sources import (
    FetchedSkill,
    HubAddresses,
    ListedSkill,
    RepoPath,
    SkillOffer,
    SkillOrigin,
    check_address,
    check_redirect,
    choose_folder,
    filter_offers,
    parse_repo_path,
)
from hermes.skills.hub.web_sources import split_site
from tests.cases import cases

CASES = cases(__file__)

WEB = "https://github.com"


@pytest.mark.parametrize(("identifier", "source"), CASES["source is guessed from the identifier"])
def test_source_is_guessed_from_the_identifier(tmp_path, identifier, source):
    assert Hub(HubOptions(tmp_path)).sources.resolve(identifier)[0].name == source


def test_bare_word_is_not_an_identifier(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not identify a source"):
        Hub(HubOptions(tmp_path)).sources.resolve("pdf")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("o/r", RepoPath("o/r")),
        ("o/r/a/b", RepoPath("o/r", "a/b")),
        ("o/r/a/SKILL.md", RepoPath("o/r", "a")),
        ("o/r/a@v1.2", RepoPath("o/r", "a", "v1.2")),
        ("o/r@feature/x", RepoPath("o/r", "", "feature/x")),
        (f"{WEB}/o/r.git", RepoPath("o/r")),
        (f"{WEB}/o/r/tree/main/a%20b?x=1", RepoPath("o/r", "a b", "main")),
        (f"{WEB}/o/r/blob/main/a/SKILL.md", RepoPath("o/r", "a", "main")),
    ],
)
def test_github_repository_path_is_parsed(text: str, place: RepoPath) -> None:
    assert parse_repo_path(text, WEB) == place


@pytest.mark.parametrize(
    "text", ["o", "o/", "/r", "o/..", "-o/r", "o/r/../x", "o/r@-x", "o/r@a..b", "o r/x", "o/r?x"]
)
def test_invalid_repository_path_is_refused(text: str) -> None:
    with pytest.raises((UsageError, HubError)):
        parse_repo_path(text, WEB)


def test_git_address_is_parsed() -> None:
    assert parse_git_address("git+https://h/r#v1:a/b/") == GitAddress("https://h/r", "v1", "a/b")
    assert parse_git_address("git@h:r.git#:a") == GitAddress("git@h:r.git", "", "a")
    assert is_git_address("git@h:r")
    assert not is_git_address("https://example.com/a")


def test_repository_path_matches_the_closest_folder() -> None:
    skills = [
        ListedSkill("a/pdf", "pdf", ""),
        ListedSkill("b/pdf", "other", ""),
        ListedSkill("c", "word", ""),
    ]
    assert choose_folder("x", "a/pdf", skills) == "a/pdf"
    assert choose_folder("x", "word", skills) == "c"
    assert choose_folder("x", "", skills[2:]) == "c"
    for path in ("pdf", "", "excel"):
        with pytest.raises(NotAvailable):
            choose_folder("x", path, skills)


@pytest.mark.parametrize(("text", "split"), CASES["a site and the skill on it"])
def test_a_site_and_the_skill_on_it(text, split):
    site, name = split_site(text)
    assert [site.rstrip("/"), name] == split


@pytest.mark.parametrize("url", CASES["unsafe addresses are refused"])
def test_unsafe_addresses_are_refused(url: str) -> None:
    with pytest.raises(HubError):
        check_address(url)


@pytest.mark.parametrize(
    "after", ["http://a.example/x", "https://127.0.0.1/x", "https://10.0.0.1/"]
)
def test_redirects_that_are_not_followed(after: str) -> None:
    with pytest.raises(HubError):
        check_redirect("https://a.example/", after)


def test_redirect_without_https_is_refused() -> None:
    with pytest.raises(HubError, match=r"a\.example redirects to an address without https"):
        check_redirect("https://a.example/", "file:///etc/passwd")


@pytest.mark.parametrize("place", ["~nobody-of-this-name/x", f"./{'x' * 5000}", "./nothing"])
def test_impossible_folder_is_not_available(place: str) -> None:
    with pytest.raises(NotAvailable, match="there is no"):
        resolve_folder(place)


def test_invalid_git_address_is_refused() -> None:
    with pytest.raises(UsageError, match="not an address"):
        parse_git_address("https://[::1/x.git")


def test_redirect_to_a_public_host_is_followed() -> None:
    check_redirect("https://api.github.com/x", "https://codeload.github.com/y")


def test_trust_comes_from_the_repository_and_its_default_branch_alone() -> None:
    def fetched(place: str) -> FetchedSkill:
        return FetchedSkill({}, SkillOrigin(), place)

    usual = HubAddresses()
    assert source_trust("github", fetched("anthropics/skills"), usual) == "trusted"
    assert source_trust("skills-sh", fetched("openai/skills"), usual) == "trusted"
    assert source_trust("github", fetched("openai/skillz"), usual) == "community"
    assert source_trust("github", fetched(""), usual) == "community"
    mirror = HubAddresses(github_api="https://github.company.example/api/v3")
    assert source_trust("github", fetched("anthropics/skills"), mirror) == "community"
    assert source_trust("well-known", fetched(""), usual) == "community"
    assert source_trust("official", fetched("official"), usual) == "official"


def test_a_search_wants_every_word_and_puts_names_first() -> None:
    offers = [
        SkillOffer("s", "o/r/a", "sheets", "turns a pdf into a table"),
        SkillOffer("s", "o/r/b", "pdf-table", "tables"),
        SkillOffer("s", "o/r/c", "pdf", "reads"),
    ]
    assert [one.name for one in filter_offers(offers, "PDF table")] == ["pdf-table", "sheets"]
    assert len(filter_offers(offers, "")) == 3


def test_taps_are_saved_and_a_damaged_file_is_reported(tmp_path: Path) -> None:
    taps = TapList(tmp_path / "taps.json", WEB)
    assert taps.all() == ()
    assert taps.add("o/r")
    assert not taps.add("O/R")
    assert taps.remove("o/R")
    assert taps.all() == ()
    for wrong in ("o/r/path", "o/r@x", "http://example.com", "word"):
        with pytest.raises((UsageError, HubError)):
            taps.normalize(wrong)
    (tmp_path / "taps.json").write_text("[")
    with pytest.raises(ConfigError, match="taps"):
        taps.all()
