"""`hermes mcp` as a user sees it."""

import io
import json
import os
import re
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.cli.context import Cli
from hermes.config.environment import read_dotenv
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.mcp.oauth import LoginStore
from tests.cases import cases
from tests.integration.mcp.oauth.guarded import GuardedSite, LoginSite
from tests.integration.mcp.stage import PROGRAM
from tests.unit.cli.terminal import Outcome, Terminal, run

CASES = cases(__file__)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Elsewhere(Terminal):
    """A user with a browser on another machine, who pastes the redirect address."""

    def __init__(self, screen: io.StringIO) -> None:
        super().__init__()
        self._screen = screen

    def readline(self, *_: Any) -> str:
        address = re.search(r"Open +(\S+)", self._screen.getvalue())
        assert address is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(address[1], timeout=20)
        with caught.value as page:
            return f"{page.headers['location']}\n"


Run = Callable[..., Outcome]


@pytest.fixture
def hermes(hermes_home: Path) -> Run:
    """Run `hermes mcp …`; with `typed` it sits at a terminal, and can sign in with `browser`."""

    def call(
        *words: str, typed: str | None = None, stdin: str = "", browser: bool = False
    ) -> Outcome:
        kind = io.StringIO if typed is None and not browser else Terminal
        stdout, stderr = kind(), io.StringIO()
        source = Elsewhere(stdout) if browser else kind(typed or stdin)
        return run("mcp", words, Cli(Home(hermes_home), source, stdout, stderr))

    return call


@pytest.fixture
def config(hermes_home: Path) -> Path:
    hermes_home.mkdir()
    path = hermes_home / "config.yaml"
    path.write_text("# mine\nmodel:\n  default: x  # the best\n")
    return path


@pytest.fixture
def servers(hermes_home: Path) -> Callable[[], Any]:
    return lambda: load(Home(hermes_home)).settings.mcp_servers


@pytest.fixture
def guarded() -> Iterator[GuardedSite]:
    with LoginSite() as login, GuardedSite(login) as site:
        yield site


def add_program(hermes: Run, *words: str, scene: str = "plain", name: str = "srv") -> Outcome:
    return hermes("add", name, *words, "--command", sys.executable, "--args", PROGRAM, scene)


def test_a_program_is_tried_shown_and_written_down(hermes, config, servers):
    outcome = add_program(hermes, "--env", "LOG_LEVEL=debug")
    assert outcome.out.splitlines() == CASES["program is tried shown and written"]
    assert config.read_text().startswith("# mine\nmodel:\n  default: x  # the best\n")
    added = servers()["srv"]
    assert (added.command, added.args) == (sys.executable, (PROGRAM, "plain"))
    assert added.env == {"LOG_LEVEL": "debug"}


def test_the_program_may_follow_two_dashes(hermes, config, servers):
    hermes(
        *("add", "srv", "--env", "LOG_LEVEL=debug", "--"),
        *(sys.executable, PROGRAM, "plain", "--no-test", "-x"),
    ).expect(out="added srv: scripted 1.2")
    added = servers()["srv"]
    assert (added.command, added.args) == (sys.executable, (PROGRAM, "plain", "--no-test", "-x"))
    assert added.env == {"LOG_LEVEL": "debug"}
    hermes("add", "c", "--command", "b", "--", "c").expect(2, err="say the command once")


OTHERS = CASES["servers of another program"]


@pytest.fixture
def others(tmp_path: Path) -> str:
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps(OTHERS))
    return str(path)


def test_servers_of_another_program_are_shown_and_added_after_a_yes(
    hermes, config, servers, others, hermes_home
):
    hermes("import", others, typed="n\n").expect(
        1, out=["uvx mcp-server-time", "nothing was added"]
    )
    assert servers() == {}
    hermes("import", others).expect(2, err="--yes")
    hermes("import", others, typed="y\n").expect(1, out=["Add 3 servers?", "added time, web, off"])
    assert servers()["time"].args == ("mcp-server-time", "--local-timezone=UTC")
    assert servers()["time"].env == {"API_TOKEN": "s3cr3t-value", "LEVEL": "debug"}
    assert servers()["web"].headers == {"Authorization": "Bearer abc"}
    assert (servers()["web"].url, servers()["web"].transport) == ("https://a.example.com", "sse")
    assert [name for name, server in servers().items() if not server.enabled] == ["off"]
    assert "s3cr3t-value" not in config.read_text() and "abc" not in config.read_text()


def test_invalid_servers_are_reported_and_the_others_added(hermes, config, others):
    outcome = hermes("import", others, "--yes").expect(1, out="added time, web, off")
    assert outcome.err.splitlines() == CASES["invalid servers of another program"]


def test_an_import_replaces_existing_servers_only_if_asked(hermes, config, servers, others):
    hermes("add", "time", "--no-test", "--", "mine").expect()
    hermes("import", others, "--yes").expect(1, err="there is a server of this name; --replace")
    assert servers()["time"].command == "mine"
    hermes("import", others, "--yes", "--replace").expect(1, out="replaces the present one")
    assert servers()["time"].command == "uvx"


@pytest.mark.parametrize("text", ["", "[]", '{"servers": {}}', '{"mcpServers": {}}'])
def test_a_file_without_servers_is_refused(hermes, config, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    hermes("import", str(tmp_path / "x.json"), "--yes").expect(2, err="x.json")
    hermes("import", str(tmp_path / "none.json"), "--yes").expect(2, err="No such file")


def test_secrets_stand_in_the_env_file_only(hermes, config, hermes_home, servers):
    add_program(hermes, "--env", "API_TOKEN=s3cr3t-value", "--env", "PLACE=here", "--no-test")
    hermes(
        *("add", "web-1", "--url", "https://a.example.com/mcp", "--no-test"),
        *("--header", "Authorization: Bearer abc=def", "--header", "X-Team=${TEAM}"),
    )
    text = config.read_text()
    assert "s3cr3t-value" not in text and "abc=def" not in text
    saved = read_dotenv(hermes_home / ".env")
    assert saved == {
        "MCP_SRV_API_TOKEN": "s3cr3t-value",
        "MCP_WEB_1_AUTHORIZATION": "Bearer abc=def",
    }
    assert servers()["srv"].env == {"API_TOKEN": "s3cr3t-value", "PLACE": "here"}
    assert servers()["web-1"].headers == {"Authorization": "Bearer abc=def", "X-Team": "${TEAM}"}


def test_a_token_is_read_from_standard_input(hermes, config, servers):
    url = ("--url", "https://a.example.com/mcp")
    hermes("add", "web", *url, "--auth", "header", "--no-test", stdin="tok-12345\n").expect()
    assert servers()["web"].headers == {"Authorization": "Bearer tok-12345"}
    assert servers()["web"].auth == ""
    hermes("add", "other", *url, "--auth", "header", "--no-test", stdin="\n").expect(
        2, err="not a token"
    )


def test_a_name_may_have_dots(hermes: Run, config: Path, servers: Callable[[], Any]) -> None:
    assert "added my.srv: scripted" in add_program(hermes, "--env", "A_KEY=k3y", name="my.srv").out
    assert servers()["my.srv"].env == {"A_KEY": "k3y"}
    assert hermes("configure", "my.srv", "--timeout", "3").code == 0
    assert servers()["my.srv"].timeout == 3
    assert hermes("remove", "my.srv", "--yes").code == 0
    assert servers() == {}


def test_a_variable_without_a_value_is_a_fault_of_the_settings(hermes: Run, config: Path) -> None:
    added = add_program(hermes, "--env", "TOKEN=${NO_SUCH_TOKEN}")
    assert "was not added: the settings of srv name a variable that is not set" in added.err
    add_program(hermes, "--env", "TOKEN=${NO_SUCH_TOKEN}", "--no-test")
    (facts,) = json.loads(hermes("list", "--json").out)
    assert facts["state"] == "wrong settings"
    assert "a variable that is not set: NO_SUCH_TOKEN" in facts["problems"][0]
    tested = hermes("test", "srv")
    assert (tested.code, len(tested.out.splitlines())) == (1, 1)
    assert "✗ settings: the settings of srv name a variable" in tested.out


def test_a_command_in_one_word_is_taken_apart(hermes, config, servers):
    command = f"{sys.executable} {PROGRAM} plain"
    assert hermes("add", "srv", "--command", command).code == 0
    assert servers()["srv"].args == (PROGRAM, "plain")


@pytest.mark.parametrize(("words", "complaint"), CASES["mistakes are one clear line"])
def test_mistakes_are_one_clear_line(hermes, config, words, complaint):
    before = config.read_text()
    outcome = hermes(*words).expect(2, err=complaint)
    assert len(outcome.err.splitlines()) == 2, "the message, and a hint"
    assert "sk-secret" not in outcome.err
    assert config.read_text() == before


def test_a_name_that_is_taken_or_mistyped(hermes: Run, config: Path) -> None:
    add_program(hermes, "--no-test")
    add_program(hermes).expect(2, err="there is an MCP server srv already")
    assert "did you mean srv?" in hermes("test", "sr").err


def test_a_server_that_does_not_work_is_not_added(hermes, config, hermes_home, servers, capfd):
    broken = hermes("add", "x", "--command", "no-such-program").expect(2)
    assert capfd.readouterr() == ("", ""), "what is logged goes to a file"
    assert "no-such-program" in (hermes_home / "logs" / "agent.log").read_text()
    assert "x was not added" in broken.err and "there is no program 'no-such-program'" in broken.err
    assert "--no-test" in broken.err
    assert servers() == {}
    assert hermes("add", "x", "--command", "no-such-program", typed="n\n").code == 2
    assert servers() == {}
    wanted = hermes("add", "x", "--command", "no-such-program", typed="y\n")
    assert (wanted.code, list(servers())) == (0, ["x"])


def test_tools_that_are_left_out_are_named(hermes: Run, config: Path) -> None:
    outcome = add_program(hermes, scene="liar")
    assert "  not available: steers: its description tries to steer the agent" in outcome.out
    listed = hermes("list").out
    assert "steers: its description tries to steer the agent" in listed
    assert "✗ not available: steers" in hermes("tools", "srv").out
    facts = json.loads(hermes("list", "--json").out)
    assert (facts[0]["tools"], len(facts[0]["problems"])) == (5, 10)


def test_the_list_says_how_servers_fare(hermes: Run, config: Path) -> None:
    assert "no MCP servers yet" in hermes("list").out
    assert json.loads(hermes("list", "--json").out) == []
    add_program(hermes)
    add_program(hermes, "--no-test", name="new")
    hermes("add", "lost", "--command", "no-such-program", "--no-test")
    url = "https://u:p@a.example.com/mcp?key=1"
    hermes("add", "web", "--url", url, "--auth", "oauth", "--no-test")
    hermes("configure", "new", "--disable")
    with config.open("a") as file:
        file.write("  odd: {enabled: true}\n")
    facts = {each["name"]: each for each in json.loads(hermes("ls", "--json").out)}
    assert {name: each["state"] for name, each in facts.items()} == CASES[
        "list says how servers fare"
    ]
    assert facts["srv"]["tools"] == 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["srv"]["last_connected"])
    assert facts["new"]["last_connected"] is None
    assert facts["web"]["place"] == "https://a.example.com/mcp"
    lines = hermes().out
    assert re.search(r"✓ srv +ready +stdio +4 tools +connected \d+s ago ", lines)
    assert re.search(r"✗ lost +wrong settings +stdio +tools not known +never connected", lines)
    assert "there is no program 'no-such-program'" in lines
    assert "neither `command` nor `url`" in lines


def test_failed_server_is_listed_as_failed_until_it_works(hermes, config, hermes_home):
    gate = hermes_home / "gate"
    code = f"import pathlib as p, runpy, sys; p.Path({str(gate)!r}).exists() or sys.exit('key=a b')"
    run = f"{code}; sys.argv = ['p', 'plain']; runpy.run_path({PROGRAM!r}, run_name='__main__')"
    hermes("add", "srv", "--no-test", "--command", sys.executable, "--args", "-c", run)
    assert hermes("test", "srv").code == 1
    (facts,) = json.loads(hermes("list", "--json").out)
    assert facts["state"] == "failed"
    assert facts["problems"] == ["srv ended with exit code 1: key=…[redacted] b"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["last_failed"])
    line, reason = hermes("list").out.splitlines()
    assert re.search(r"✗ srv +failed +stdio .* failed \d+s ago, never connected ", line)
    assert reason.strip() == facts["problems"][0]
    gate.touch()
    hermes("test", "srv")
    (facts,) = json.loads(hermes("list", "--json").out)
    assert (facts["state"], facts["problems"], facts["last_failed"]) == ("ready", [], None)
    gate.unlink()
    hermes("test", "srv")
    (facts,) = json.loads(hermes("list", "--json").out)
    assert (facts["state"], facts["tools"]) == ("failed", 4)
    hermes("configure", "srv", "--disable")
    assert json.loads(hermes("list", "--json").out)[0]["state"] == "off"
    hermes("remove", "srv", "--yes")
    assert list((hermes_home / "cache" / "mcp").iterdir()) == []


def test_connecting_again_is_seen_in_the_list(hermes: Run, config: Path, hermes_home: Path) -> None:
    add_program(hermes)
    (kept,) = (hermes_home / "cache" / "mcp").iterdir()
    content = kept.read_bytes()
    os.utime(kept, (1_000, 1_000))
    before = json.loads(hermes("list", "--json").out)[0]["last_connected"]
    assert before == "1970-01-01T00:16:40+00:00"
    hermes("test", "srv")
    assert json.loads(hermes("list", "--json").out)[0]["last_connected"] > before
    assert kept.read_bytes() == content


def test_a_test_shows_every_step(hermes: Run, config: Path) -> None:
    add_program(hermes, "--no-test")
    outcome = hermes("test", "srv").expect()
    plain = re.sub(r"\(\d+\.\d\d s\)", "(N s)", outcome.out).splitlines()
    assert plain[0].startswith("✓ settings: stdio, ")
    assert plain[1:4] == [
        "✓ connect: scripted 1.2, MCP 2025-11-25 over stdio (N s)",
        "✓ tools: 4 tools",
        "✓ resources and prompts: 1 resource, 1 prompt (N s)",
    ]
    assert plain[4] == "  ✓ act         may do anything        does something"
    facts = json.loads(hermes("test", "srv", "--json").out)
    assert facts["ok"] is True
    assert [step["step"] for step in facts["steps"]][:2] == ["settings", "connect"]
    assert facts["server"]["instructions"] == "Be nice."
    assert facts["tools"][0] == CASES["test shows every step"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((PROGRAM, "future"), "speaks version '2099-01-01' of MCP"),
        (("-c", "import sys; sys.exit('out of paper')"), "out of paper"),
    ],
)
def test_a_test_that_fails_says_where(hermes, config, arguments, words):
    hermes("add", "srv", "--no-test", "--command", sys.executable, "--args", *arguments)
    outcome = hermes("test", "srv").expect(1)
    assert outcome.out.splitlines()[-1].startswith("✗ connect: ")
    assert words in outcome.out
    facts = json.loads(hermes("test", "srv", "--json").out)
    assert (facts["ok"], facts["steps"][-1]["ok"]) == (False, False)


def test_server_messages_contain_no_terminal_sequences(hermes: Run, config: Path) -> None:
    code = (
        "import json,sys\n"
        "for line in sys.stdin:\n"
        " n=json.loads(line)['id']\n"
        " print(json.dumps({'jsonrpc':'2.0','id':n,'error':"
        "{'code':1,'message':'no\\x1b[2J\\x1b]0;x\\x07 way'}}),flush=True)\n"
    )
    hermes("add", "srv", "--no-test", "--command", sys.executable, "--args", "-c", code)
    outcome = hermes("test", "srv")
    assert "✗ connect: srv: no way" in outcome.out and "\x1b" not in outcome.out
    assert "\x1b" not in hermes("test", "srv", "--json").out
    assert "srv: no way" in hermes("tools", "srv").err and "\x1b" not in hermes("tools", "srv").err


def test_tools_are_chosen_with_flags(hermes: Run, config: Path, servers: Callable[[], Any]) -> None:
    add_program(hermes)
    done = hermes("configure", "srv", "--include", "echo, act", "--timeout", "300", "--no-prompts")
    assert done.out == "srv: only echo, act, prompts off, timeout 300 s\n"
    chosen = servers()["srv"]
    assert chosen.tools.include == ("echo", "act")
    assert (chosen.timeout, chosen.tools.prompts) == (300, False)
    shown = hermes("tools", "srv").out
    assert "✓ act" in shown and "· drop.table" in shown
    assert "2 of 4 tools" in hermes("list").out
    assert hermes("config", "srv", "--exclude", "act").out == "srv: all but act\n"
    assert (servers()["srv"].tools.include, servers()["srv"].tools.exclude) == ((), ("act",))
    assert hermes("configure", "srv", "--all", "--disable").out == "srv: switched off, all tools\n"
    assert servers()["srv"].tools.exclude == ()
    assert not servers()["srv"].enabled
    hermes("configure", "srv", "--enable")
    assert servers()["srv"].enabled
    assert "# the best" in config.read_text()


@pytest.mark.parametrize(("words", "complaint"), CASES["choices that make no sense"])
def test_choices_that_make_no_sense(hermes, config, words, complaint):
    add_program(hermes)
    before = config.read_text()
    hermes("configure", "srv", *words).expect(2, err=complaint)
    assert config.read_text() == before


def test_tools_are_chosen_from_a_list(hermes, config, servers):
    add_program(hermes, "--no-test")
    left = hermes("configure", "srv", typed="2\nq\n")
    assert "   2 ✓ drop.table" in left.out and "   2 · drop.table" in left.out
    assert servers()["srv"].tools.include == ()
    assert "'9' is not in the list" in hermes("configure", "srv", typed="9\nq\n").out
    assert "none is left" in hermes("configure", "srv", typed="none\n\nq\n").out
    assert hermes("configure", "srv", typed="1-2,4\n\n").out.endswith("srv: only echo\n")
    assert servers()["srv"].tools.include == ("echo",)
    hermes("configure", "srv", typed="all\n\n")
    assert servers()["srv"].tools.include == ()


def test_names_are_not_checked_before_the_tools_are_known(hermes: Run, config: Path) -> None:
    add_program(hermes, "--no-test")
    hermes("configure", "srv", "--include", "anything").expect(err="were not checked")


def test_removing_leaves_nothing_behind(hermes, config, hermes_home, guarded):
    hermes("add", "tickets", "--url", guarded.url, "--auth", "oauth", browser=True)
    add_program(hermes, "--env", "API_KEY=key-123456", name="other")
    with config.open("a") as file:
        file.write("command_allowlist: [shell, 'mcp:tickets:write', 'mcp:other:act']\n")
        file.write("approvals: {rules: [{classes: ['mcp:tickets:read'], folder: /work}]}\n")
    assert "needs --yes" in hermes("remove", "tickets").err
    assert hermes("remove", "tickets", typed="n\n").code == 1
    assert guarded.login.tokens
    assert hermes("rm", "tickets", "--yes").out == "removed tickets\n"
    assert guarded.login.tokens == {}, "the login is over on the other side too"
    assert not (hermes_home / "mcp-tokens" / "tickets.json").exists()
    assert [each.name for each in (hermes_home / "cache" / "mcp").iterdir()] == ["other.json"]
    settings = load(Home(hermes_home)).settings
    assert settings.command_allowlist == ("shell", "mcp:other:act")
    assert settings.approvals.rules == ()
    hermes("remove", "other", "--yes")
    assert read_dotenv(hermes_home / ".env") == {}
    assert config.read_text() == (
        "# mine\nmodel:\n  default: x  # the best\ncommand_allowlist: [shell]\n"
    )


def test_signing_in_from_another_machine(hermes, config, hermes_home, guarded, servers):
    hermes("add", "tickets", "--url", guarded.url, "--no-test")
    assert "✗ connect: tickets does not let us in (HTTP 401)" in hermes("test", "tickets").out
    done = hermes("login", "tickets", "--no-browser", browser=True).expect()
    assert done.out.splitlines()[-1] == "signed in to tickets: 2 tools"
    assert servers()["tickets"].auth == "oauth"
    login = LoginStore(hermes_home / "mcp-tokens", "tickets").load()
    assert login is not None
    assert login.access_token not in done.out + config.read_text()
    tested = hermes("test", "tickets").out.splitlines()
    assert tested[1] == "✓ login: signed in"
    assert json.loads(hermes("list", "--json").out)[0]["login"] == "signed in"
    assert hermes("logout", "tickets").out == "signed out of tickets\n"
    assert "you were not signed in" in hermes("logout", "tickets").out
    tested = hermes("test", "tickets").out.splitlines()
    assert tested[-1] == "✗ login: not signed in (`hermes mcp login tickets` signs in)"


def test_a_server_that_wants_a_login_is_added_with_one(hermes, config, guarded, servers):
    refused = hermes("add", "tickets", "--url", guarded.url)
    assert "it may want --auth oauth or --auth header" in refused.err
    waiting = hermes("add", "later", "--url", guarded.url, "--auth", "oauth")
    assert waiting.out.endswith("it needs a login: hermes mcp login later\n")
    done = hermes("add", "tickets", "--url", guarded.url, "--auth", "oauth", browser=True)
    assert "added tickets: tickets 1, 2 tools" in done.out
    assert servers()["tickets"].auth == "oauth"


def test_a_server_for_oauth_that_does_not_answer_is_not_added(hermes, config, servers):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        hermes("add", "gone", "--url", url, "--auth", "oauth").expect(2, err="gone was not added")
    assert servers() == {}


def test_token_refused_by_the_server_is_reported(hermes, config, guarded):
    guarded.audience = "https://somebody.example.com/mcp"
    hermes("add", "tickets", "--url", guarded.url, "--auth", "oauth")
    hermes("login", "tickets", browser=True).expect(1, err="signed in, but tickets does not work")


@pytest.mark.parametrize(("words", "complaint"), CASES["logins that make no sense"])
def test_logins_that_make_no_sense(hermes, config, words, complaint):
    add_program(hermes, "--no-test")
    hermes("add", "web", "--url", "https://a.example.com/mcp", "--no-test")
    hermes(*words).expect(2, err=complaint)


def test_an_address_that_makes_no_sense_does_not_spoil_the_list(hermes: Run, config: Path) -> None:
    config.write_text("mcp_servers:\n  bad: {url: 'http://me:secret@['}\n")
    listed = hermes("list").expect(
        out=[
            "✗ bad  wrong settings",
            "its `url` is not a web address (it must start with https://)",
        ]
    )
    assert "secret" not in listed.out
    tested = hermes("test", "bad")
    assert (tested.code, tested.out) == (
        1,
        "✗ settings: its `url` is not a web address (it must start with https://)\n",
    )


def test_servers_with_nearly_the_same_name_keep_their_own_secrets(
    hermes, config, servers, hermes_home
):
    for name, secret in (("a-b", "one"), ("a_b", "two"), ("A-B", "three")):
        words = ("--url", "https://x.example/mcp", "--header", f"X-Key={secret}", "--no-test")
        assert hermes("add", name, *words).code == 0
    assert {name: each.headers["X-Key"] for name, each in servers().items()} == {
        "a-b": "one",
        "a_b": "two",
        "A-B": "three",
    }
    assert hermes("remove", "a-b", "--yes").code == 0
    assert sorted(read_dotenv(hermes_home / ".env").values()) == ["three", "two"]
