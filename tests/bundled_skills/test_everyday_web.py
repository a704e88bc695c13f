"""The scripts of the skills that ask servers, against small servers with the real wire format."""

import json
import re
import urllib.parse
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.everyday_mail import Mailbox, mail_server, raw_mail
from tests.bundled_skills.everyday_servers import TOKEN, HomeAssistant, Site, home, served
from tests.cases import cases

CASES = cases(__file__)

NOBODY = "http://127.0.0.1:9"
FEED = Path(__file__).with_name("arxiv.xml").read_text("utf-8")
REFUSAL = """<feed xmlns="http://www.w3.org/2005/Atom"><entry>
<id>http://arxiv.org/api/errors#incorrect_id</id><title>Error</title>
<summary>incorrect id format for 1</summary></entry></feed>"""

# arxiv


def test_arxiv_is_asked_in_its_query_language(run: Run) -> None:
    state: dict = {"pages": {"/api": FEED}}
    with served(Site, state) as url:
        done = run(
            "arxiv/arxiv.py", "graph", "neural networks", "abs:deep tea", "--category", "cs.LG",
            "--since", "2024-01-31", "--sort", "submitted", "--max", 3, "--api", f"{url}/api",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(state["calls"][0][0]).query)
    assert re.fullmatch(
        r'all:graph AND all:"neural networks" AND abs:"deep tea" AND cat:cs\.LG AND '
        r"submittedDate:\[202401310000 TO \d{8}2359\]",
        asked["search_query"][0],
    )
    assert (asked["sortBy"], asked["max_results"]) == (["submittedDate"], ["3"])
    assert done.stdout.startswith(
        "1706.03762v7  Attention Is All You Need\n    Ashish Vaswani, Noam"
    )
    assert "1 of 41 papers" in done.stderr


def test_papers_are_written_as_bibtex_json_and_markdown(run: Run, tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(FEED)
    bibtex = run("arxiv/arxiv.py", "--file", "feed.xml", "--format", "bibtex").stdout
    assert bibtex.startswith(
        "@misc{vaswani2017attention,\n  title = {{Attention Is All You Need}},\n"
    )
    found = json.loads(run("arxiv/arxiv.py", "--file", "feed.xml", "--format", "json").stdout)
    assert found["pdf"] == "https://arxiv.org/pdf/1706.03762v7"
    assert found["authors"] == ["Ashish Vaswani", "Noam Shazeer"]
    line = run(
        "arxiv/arxiv.py", "--file", "feed.xml", "--format", "markdown", "--abstract", 0
    ).stdout
    assert line == (
        "- [Attention Is All You Need](https://arxiv.org/abs/1706.03762) "
        "(Ashish Vaswani, Noam Shazeer, 2017, arXiv:1706.03762)\n"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (REFUSAL, "incorrect id format"),
        ("<html></html>", "no Atom feed, its root"),
        ("Rate exceeded.", "no Atom feed"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a/>', "declares entities"),
        (429, "Wait at least 3 seconds"),
    ],
)
def test_refusals_of_arxiv_are_explained(run: Run, page: str | int, text: str) -> None:
    with served(Site, {"pages": {"/": page}}) as url:
        done = run("arxiv/arxiv.py", "tea", "--api", f"{url}/")
    assert done.returncode == 2
    assert text in done.stderr


def test_arxiv_needs_something_to_search(run: Run) -> None:
    assert "nothing to search for" in run("arxiv/arxiv.py").stderr
    assert "no arXiv id" in run("arxiv/arxiv.py", "--id", "12").stderr
    assert "no answer" in run("arxiv/arxiv.py", "tea", "--api", NOBODY).stderr


# duckduckgo-search

RESULTS = Path(__file__).with_name("duckduckgo.html").read_text("utf-8")


def test_results_have_plain_addresses_and_no_advertisements(run: Run) -> None:
    state: dict = {"pages": {"/html/": RESULTS}}
    with served(Site, state) as url:
        done = run(
            "duckduckgo-search/ddg.py", "green", "tea", "--time", "week", "--page", f"{url}/html/",
            "--format", "json",
        )  # fmt: skip
    assert urllib.parse.parse_qs(state["calls"][0][1].decode()) == {
        "q": ["green tea"],
        "kl": ["wt-wt"],
        "df": ["w"],
    }
    assert json.loads(done.stdout) == [
        {"title": "Tea & cake", "url": "https://example.org/a?b=1", "text": "All about tea."},
        {"title": "Plain", "url": "https://example.net/", "text": ""},
    ]


@pytest.mark.parametrize(("page", "code", "text"), CASES["other answers of duckduckgo"])
def test_other_answers_of_duckduckgo(run: Run, page: str | int, code: int, text: str) -> None:
    with served(Site, {"pages": {"/": page}}) as url:
        done = run("duckduckgo-search/ddg.py", "tea", "--page", f"{url}/")
    assert done.returncode == code
    assert text in done.stderr


# web-scraping

PAGE = """<html><head><meta charset=utf-8><title>T</title></head><body><p>One<p>Two
<script>x</script>
<table><tr><th colspan=2>Head<tr><td rowspan=2>a<td>b<tr><td>c</table>
<ul><li class="x big">1<li>2</ul><a href="/p#top">P</a><a href="/p">again</a>
<a href="mailto:a@b">m</a><a href="http://[">odd</a>
<div id=box><h2>Title</h2><span data-k="v">S</span></div></body></html>"""


def test_tables_links_text_and_elements_of_a_page(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    tables = run("web-scraping/scrape.py", "a.html", "--tables").stdout
    assert tables == "Head,Head\na,b\na,c\n"
    links = run("web-scraping/scrape.py", "a.html", "--links", "--base", "https://e.org/x/").stdout
    assert links == "https://e.org/p,P\nhttp://[,odd\n"
    assert run("web-scraping/scrape.py", "a.html", "--select", "li.big").stdout == "1\n"
    assert run("web-scraping/scrape.py", "a.html", "--select", "#box [data-k=v]").stdout == "S\n"
    assert run("web-scraping/scrape.py", "a.html").stdout.startswith("One\nTwo\nHead")
    rows = run(
        "web-scraping/scrape.py", "a.html", "--rows", "div", "--field", "t=h2", "--field",
        "k=span@data-k", "--field", "no=b",
    )  # fmt: skip
    assert rows.stdout == "t,k,no\nTitle,v,\n"


def test_robots_are_obeyed_and_pages_kept(run: Run, tmp_path: Path) -> None:
    pages = {
        "/robots.txt": "User-agent: *\nDisallow: /private",
        "/a": "<p>Tür</p>",
        "/private": "x",
    }
    with served(Site, {"pages": pages}) as url:
        assert run("web-scraping/scrape.py", f"{url}/a", "--save", "a.html").stdout == "Tür\n"
        forbidden = run("web-scraping/scrape.py", f"{url}/private")
        gone = run("web-scraping/scrape.py", f"{url}/gone")
    assert (forbidden.returncode, forbidden.stdout) == (3, "")
    assert "answered 404" in gone.stderr
    assert (tmp_path / "a.html").read_text(encoding="utf-8-sig") == "<p>Tür</p>"


def test_a_saved_page_reads_as_it_was_fetched(run: Run, tmp_path: Path) -> None:
    text = '<meta charset="windows-1252"><p>Tür</p>'
    with served(Site, {"pages": {"/a": text.encode("cp1252")}}) as url:
        save = ("web-scraping/scrape.py", f"{url}/a", "--save", "a.html")
        run(*save)
        again = run(*save)
        assert run(*save, "--force").returncode == 0
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert run("web-scraping/scrape.py", "a.html").stdout == "Tür\n"


def test_pages_of_any_depth_and_wrong_numbers_of_tables(run: Run, tmp_path: Path) -> None:
    deep = "<div>" * 5000 + "<table><tr><td>deep</table>"
    (tmp_path / "a.html").write_text(deep)
    assert run("web-scraping/scrape.py", "a.html").stdout == "deep\n"
    assert run("web-scraping/scrape.py", "a.html", "--tables", "1").stdout == "deep\n"
    assert run("web-scraping/scrape.py", "a.html", "--tables", "2").returncode == 1
    assert run("web-scraping/scrape.py", "a.html", "--tables", "x").returncode == 2
    wrong = run("web-scraping/scrape.py", "a.html", "--rows", "div", "--field", "name")
    assert "NAME=SELECTOR" in wrong.stderr


@pytest.mark.parametrize("selector", ["a > b", "a:first-child", " "])
def test_selectors_that_are_not_known_are_errors(run: Run, tmp_path: Path, selector: str) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    assert run("web-scraping/scrape.py", "a.html", "--select", selector).returncode == 2
    assert run("web-scraping/scrape.py", "a.html", "--select", "b.none").returncode == 1
    assert run("web-scraping/scrape.py", "a.html", "--rows", "p").returncode == 2


# rss-and-news

RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Old</title></channel>
<item><title>Item</title><link>http://e.org/1</link>
<dc:date>2024-05-01T12:00:00.5+02:00</dc:date></item>
</rdf:RDF>"""


def test_feeds_of_all_kinds_and_what_is_new(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rdf.xml").write_text(RDF)
    first = run("rss-and-news/feeds.py", "rdf.xml", "--seen", "seen.json")
    assert first.stdout == "2024-05-01 10:00  Old: Item\n    http://e.org/1\n"
    assert run("rss-and-news/feeds.py", "rdf.xml", "--seen", "seen.json").returncode == 1
    assert run("rss-and-news/feeds.py", "rdf.xml", "--since", "2024-05-02").returncode == 1
    assert run("rss-and-news/feeds.py", "rdf.xml", "--match", "ITEM").returncode == 0


def test_one_broken_feed_does_not_hide_the_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rdf.xml").write_text(RDF)
    (tmp_path / "bad.xml").write_text("<rss><channel>")
    done = run("rss-and-news/feeds.py", "bad.xml", "rdf.xml", NOBODY)
    assert done.returncode == 0
    assert "error: bad.xml: no valid XML" in done.stderr
    assert "1 entries of 1 feeds" in done.stderr
    assert run("rss-and-news/feeds.py", "bad.xml").returncode == 2
    with served(Site, {"pages": {"/": "<html>no feed</html>"}}) as url:
        assert "names no feed" in run("rss-and-news/feeds.py", f"{url}/").stderr


# home-assistant


def test_home_assistant_is_read_and_switched(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASS_TOKEN", TOKEN)
    with served(HomeAssistant, home()) as url:
        monkeypatch.setenv("HASS_URL", url + "/")
        found = run("home-assistant/hass.py", "states", "--domain", "sensor")
        assert found.stdout == "sensor.living_temperature  21.5 °C\n"
        call = run(
            "home-assistant/hass.py", "call", "light.turn_on", "light.kitchen", "brightness_pct=40",
            "--wait", 0,
        )  # fmt: skip
        assert call.stdout == "light.kitchen: off -> on\n"
        assert (
            "brightness: 102"
            in run("home-assistant/hass.py", "get", "light.kitchen", "--attributes").stdout
        )
        past = run("home-assistant/hass.py", "history", "sensor.living_temperature").stdout
        assert past.endswith("3 values, least 20.5, most 21.5, mean 21.00\n")
        assert "fields: brightness_pct" in run("home-assistant/hass.py", "services", "light").stdout
        assert run("home-assistant/hass.py", "template", "{{ 1 }}").stdout == "computed {{ 1 }}\n"


def test_locks_need_a_clear_yes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASS_TOKEN", TOKEN)
    state = home()
    unlock = ("home-assistant/hass.py", "call", "lock.unlock", "lock.front_door", "--wait", 0)
    with served(HomeAssistant, state) as url:
        monkeypatch.setenv("HASS_URL", url)
        assert "not done" in run(*unlock).stdout
        assert state["states"]["lock.front_door"]["state"] == "locked"
        assert run(*unlock, "--yes").stdout == "lock.front_door: locked -> unlocked\n"
        wide = run("home-assistant/hass.py", "call", "light.turn_off")
        assert (wide.returncode, "may concern everything" in wide.stdout) == (1, True)


def test_errors_of_home_assistant_are_explained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HASS_URL", "")
    assert "set HASS_URL" in run("home-assistant/hass.py", "check").stderr
    with served(HomeAssistant, home()) as url:
        monkeypatch.setenv("HASS_URL", url)
        monkeypatch.setenv("HASS_TOKEN", "wrong")
        assert "refused the token" in run("home-assistant/hass.py", "check").stderr
        monkeypatch.setenv("HASS_TOKEN", TOKEN)
        assert "(404)" in run("home-assistant/hass.py", "get", "light.none").stderr
        assert "written as light.turn_on" in run("home-assistant/hass.py", "call", "on").stderr
        bad = run("home-assistant/hass.py", "call", "light.blink", "light.kitchen", "--wait", 0)
    assert "answered 400" in bad.stderr


# email-by-cli


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch):
    mailbox = Mailbox()
    with mail_server(mailbox) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield mailbox


def test_mails_are_listed_searched_and_read(run: Run, box: Mailbox, tmp_path: Path) -> None:
    assert run("email-by-cli/mail.py", "list").stdout.splitlines() == [
        "      2   2024-05-02 09:30  Bob <bob@example.org>  |  Grüße",
        "      1 * 2024-05-01 10:00  Ann <ann@example.org>  |  Meeting on Tuesday",
    ]
    unseen = run(
        "email-by-cli/mail.py", "list", "--unseen", "--from", "ann", "--since", "2024-05-01"
    )
    assert unseen.stdout.count("\n") == 1
    assert run("email-by-cli/mail.py", "list", "--subject", "Füße").returncode == 1
    read = run("email-by-cli/mail.py", "read", 2, "--save", "kept").stdout
    assert "\nTea & cake\nat four\n" in read
    file = tmp_path / "kept" / "2-1-evil.txt"
    assert file.read_text().strip() == "attached"
    file.write_text("mine")
    again = run("email-by-cli/mail.py", "read", 2, "--save", "kept").stdout
    assert "saved as kept/2-1-evil (2).txt" in again
    assert file.read_text() == "mine"
    assert "INBOX" in run("email-by-cli/mail.py", "folders").stdout


def test_nothing_is_sent_without_a_yes(run: Run, box: Mailbox, tmp_path: Path) -> None:
    (tmp_path / "body.txt").write_text("Grüße\n.\nAlice\n")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    mail = (
        "email-by-cli/mail.py", "send", "--to", "Ann <ann@example.org>", "--subject", "Tür",
        "--body-file", "body.txt", "--attach", "a.pdf", "--reply", 1,
    )  # fmt: skip
    shown = run(*mail)
    assert (shown.returncode, box.sent) == (1, [])
    assert "attachment: a.pdf" in shown.stdout
    assert run(*mail, "--yes").returncode == 0
    assert b"In-Reply-To: <m1@example.org>" in box.sent[0]
    assert b"Subject: =?utf-8?" in box.sent[0]


def test_a_copy_of_a_sent_mail_is_in_sent_and_in_the_thread(run: Run, box: Mailbox) -> None:
    mail = (
        "email-by-cli/mail.py", "send", "--to", "ann@example.org", "--subject", "Re: Meeting",
        "--body-file", "-", "--reply", 1, "--yes",
    )  # fmt: skip
    sent = run(*mail, stdin="Yes.\n> At 15:00?\n")
    assert sent.stdout.endswith("a copy is in Gesendet\n")
    (copy,) = box.copies
    (original,) = box.sent
    assert copy.split() == original.split()
    thread = run("email-by-cli/mail.py", "thread", 1)
    assert [line[:4] for line in thread.stdout.splitlines() if line] == [
        "--- ",
        "At 1",
        "--- ",
        "Yes.",
    ]
    assert thread.stderr == "2 mails\n"
    missing = run(*mail, "--sent", "None", stdin="Again")
    assert (missing.returncode, "was sent, but no copy was kept" in missing.stderr) == (0, True)
    assert "no copy" in run(*mail, "--sent", "none", stdin="Again").stdout
    box.gmail = True
    assert "Gmail keeps the copy" in run(*mail, stdin="Again").stdout
    assert len(box.copies) == 1


def test_a_draft_is_kept_on_the_server(run: Run, box: Mailbox) -> None:
    mail = ("--to", "ann@example.org", "--subject", "S", "--body-file", "-")
    assert run("email-by-cli/mail.py", "draft", *mail, stdin="Hi\n").returncode == 0
    assert box.drafts[0].splitlines()[-1] == b"Hi"
    missing = run("email-by-cli/mail.py", "draft", *mail, "--drafts", "None", stdin="Hi\n")
    assert "no such folder" in missing.stderr


def test_folders_with_other_letters_are_read_and_named(run: Run, box: Mailbox) -> None:
    name = "Entwürfe & mehr"
    assert name in run("email-by-cli/mail.py", "folders").stdout
    mail = ("--to", "ann@example.org", "--subject", "S", "--body-file", "-", "--drafts", name)
    assert run("email-by-cli/mail.py", "draft", *mail, stdin="Hi\n").returncode == 0
    assert len(box.drafts) == 1


def test_one_odd_mail_does_not_hide_the_others(run: Run, box: Mailbox) -> None:
    kind = "Content-Type: text/plain; charset=x-unknown\r\n\r\nGr\u00fc\u00dfe\r\n"
    box.mails[3] = (raw_mail(3, "Eve <eve@example.org>", "Odd", "yesterday", kind), "")
    assert run("email-by-cli/mail.py", "list").stdout.splitlines()[0] == (
        "      3 * no date  Eve <eve@example.org>  |  Odd"
    )
    assert "Grüße" in run("email-by-cli/mail.py", "read", 3).stdout
    assert run("email-by-cli/mail.py", "read", "1:*").returncode == 2


def test_errors_of_the_mail_server_are_explained(run, box, monkeypatch):
    assert "no mail 99" in run("email-by-cli/mail.py", "read", 99).stderr
    assert "Unknown Mailbox" in run("email-by-cli/mail.py", "--folder", "X", "list").stderr
    mail = ("--subject", "S", "--body-file", "-", "--yes")
    wrong = run("email-by-cli/mail.py", "send", "--to", "ann", *mail)
    assert "no mail address" in wrong.stderr
    monkeypatch.setenv("EMAIL_PASSWORD", "wrong")
    assert "app password" in run("email-by-cli/mail.py", "list").stderr
    sent = run("email-by-cli/mail.py", "send", "--to", "a@b.org", *mail, stdin="Hi")
    assert "login was refused" in sent.stderr
    monkeypatch.setenv("EMAIL_IMAP_PORT", "imap")
    assert "EMAIL_IMAP_PORT must be a number" in run("email-by-cli/mail.py", "list").stderr
    monkeypatch.delenv("EMAIL_IMAP_PORT")
    monkeypatch.setenv("EMAIL_TLS", "on")
    assert run("email-by-cli/mail.py", "list").returncode == 2
    monkeypatch.delenv("EMAIL_ADDRESS")
    assert "EMAIL_ADDRESS is not set" in run("email-by-cli/mail.py", "list").stderr
