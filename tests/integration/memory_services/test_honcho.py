"""Honcho: its modes, and `hermes honcho …` as the command runs it."""

import json
from collections.abc import Callable

import pytest

from hermes.cli.main import main
from hermes_plugins.memory.holographic import HolographicProvider
from hermes_plugins.memory.honcho import HonchoProvider
from tests.integration.memory_services import fakes
from tests.integration.memory_services.conftest import HttpStage, Open
from tests.integration.memory_services.site import Fault

CAT = "My cat is called Miro."
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def honcho(serve: Open) -> HttpStage:
    stage = serve(fakes.Honcho)
    stage.prepare(stage.home)
    (stage.home / "config.yaml").write_text("memory:\n  provider: honcho\n")
    return stage


@pytest.fixture
def run(honcho: HttpStage, capsys: pytest.CaptureFixture[str]) -> Run:
    def honcho_command(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["honcho", *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return honcho_command


def options(stage: HttpStage) -> dict[str, object]:
    read: dict[str, object] = json.loads((stage.home / "honcho.json").read_text())
    return read


def test_empty_workspace_recalls_nothing_without_a_report(honcho: HttpStage) -> None:
    assert honcho.begin().prefetch_all("What is my cat called?") == ""
    assert honcho.told == []


def test_a_mode_without_tools_only_recalls(honcho: HttpStage) -> None:
    honcho.options = {"mode": "context"}
    manager = honcho.begin()
    assert manager.get_all_tool_schemas() == []
    assert "honcho_search" not in manager.build_system_prompt()
    manager.sync_all(CAT, "Nice.")
    assert "Miro" in manager.prefetch_all("my cat?")


def test_a_mode_with_tools_does_not_recall(honcho: HttpStage) -> None:
    honcho.options = {"mode": "tools"}
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    manager.queue_prefetch_all("my cat?")
    assert manager.prefetch_all("my cat?") == ""
    assert "Miro" in manager.handle_tool_call("honcho_search", {"query": "my cat?"})
    assert "Miro" in manager.handle_tool_call("honcho_profile", {})


def test_switched_off_it_does_nothing(honcho: HttpStage) -> None:
    honcho.options = {"enabled": False}
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    manager.on_memory_write("add", "user", "Likes tea.")
    manager.queue_prefetch_all("my cat?")
    assert manager.prefetch_all("my cat?") == ""
    assert manager.get_all_tool_schemas() == []
    assert manager.build_system_prompt() == ""
    manager.shutdown_all()
    assert honcho.site.requests == []


def test_honcho_thinks_between_turns_only_when_it_may(honcho: HttpStage) -> None:
    honcho.options = {"dialectic_chars": 10, "reasoning": "high"}
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    manager.queue_prefetch_all("my cat?")
    assert "- Thought of" in manager.prefetch_all("And?")
    (asked,) = [each for each in honcho.site.requests if each.path.endswith("/chat")]
    assert asked.body["reasoning_level"] == "high"
    assert asked.body["query"].endswith("my cat?")


def test_honcho_answers_questions(honcho: HttpStage) -> None:
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    answer = manager.handle_tool_call("honcho_ask", {"question": "What does the user like?"})
    assert json.loads(answer) == {"answer": "Thought of 1 things."}


def test_the_owner_can_be_called_otherwise(honcho: HttpStage) -> None:
    honcho.options = {"user_peer": "pat", "ai_peer": "robot"}
    owner, other = honcho.begin(), honcho.begin("telegram:7")
    owner.sync_all(CAT, "Nice.")
    other.sync_all("My dog is called Rex.", "Nice.")
    owner.shutdown_all()
    other.shutdown_all()
    peers = sorted(tuple(sorted(peers)) for peers in honcho.fake.sessions.values())
    assert peers[0] == ("pat", "robot")
    assert peers[1][0] == "robot"
    assert peers[1][1].startswith("telegram-7-")


def test_two_peers_of_one_name_are_refused(honcho: HttpStage) -> None:
    honcho.options = {"user_peer": "hermes"}
    assert not honcho.begin().active
    assert "both called 'hermes'" in honcho.told[0]


def test_status_shows_what_is_set_and_whether_it_answers(run: Run, honcho: HttpStage) -> None:
    code, said = run("status")
    assert code == 0
    assert "workspace  hermes at 127.0.0.1" in said
    assert "answers, no workspace yet" in said
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    manager.shutdown_all()
    assert "answers, 2 units queued" in run()[1]
    honcho.site.misbehave(Fault(401))
    code, said = run("status")
    assert code == 1
    assert "refused the key" in said
    assert fakes.KEY not in said


def test_status_of_all_profiles(run: Run, honcho: HttpStage) -> None:
    honcho.prepare(honcho.home / "profiles" / "work")
    said = run("status", "--all")[1]
    assert "profile    default" in said
    assert "profile    work" in said
    assert "workspace  hermes-work" in said
    assert "hermes-work" in run("--target-profile", "work", "status")[1]


def test_peers_and_sessions_are_listed(run: Run, honcho: HttpStage) -> None:
    assert run("peers") == (0, "no peers yet\n")
    manager = honcho.begin(session="talk")
    manager.sync_all(CAT, "Nice.")
    manager.shutdown_all()
    assert run("peers")[1] == "2026-01-02  hermes\n2026-01-02  owner\n"
    assert run("sessions")[1] == "2026-01-02  talk\n"


def test_names_and_levels_are_saved(run: Run, honcho: HttpStage) -> None:
    assert run("peer", "--user", "pat", "--reasoning", "high")[0] == 0
    assert options(honcho)["user_peer"] == "pat"
    assert "you pat, the agent hermes\nreasoning high" in run("peer")[1]
    code, said = run("peer", "--ai", "pat")
    assert code != 0
    assert "the same name" in said
    assert "ai_peer" not in options(honcho)


def test_mode_and_tokens_are_saved(run: Run, honcho: HttpStage) -> None:
    assert run("mode")[1] == "hybrid\n"
    run("mode", "tools")
    assert options(honcho)["mode"] == "tools"
    run("tokens", "--context", "100", "--dialectic", "50")
    assert options(honcho)["recall_chars"] == 400
    assert options(honcho)["dialectic_chars"] == 200
    assert run("tokens")[1] == "context    100\ndialectic  50\n"
    assert run("tokens", "--context", "-1")[0] != 0


def test_enable_and_disable(run: Run, honcho: HttpStage) -> None:
    run("disable")
    assert options(honcho)["enabled"] is False
    assert "(disabled)" in run("status")[1]
    run("enable")
    assert "enabled" not in options(honcho)


def test_a_folder_is_one_session(run, honcho, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no folder is mapped" in run("map")[1]
    run("map", "garden")
    assert "garden" in run("map")[1]
    provider = HonchoProvider()
    provider.initialize("s1", hermes_home=str(honcho.home), platform="cli")
    provider.sync_turn(CAT, "Nice.")
    provider.shutdown()
    elsewhere = HonchoProvider()
    elsewhere.initialize("s1", hermes_home=str(honcho.home), platform="telegram")
    elsewhere.sync_turn(CAT, "Nice.")
    elsewhere.shutdown()
    assert {session for _workspace, session in honcho.fake.sessions} == {"garden", "s1"}
    run("map", "--remove")
    assert "no folder is mapped" in run("map")[1]


def test_identity_shows_what_is_known(run: Run, honcho: HttpStage) -> None:
    manager = honcho.begin()
    manager.sync_all(CAT, "Nice.")
    manager.shutdown_all()
    assert run("identity")[1] == "you: owner\nthe agent: hermes\n"
    said = run("identity", "--show")[1]
    assert "you: owner\n  ## Explicit\n  - My cat is called Miro.\n" in said


def test_sync_tells_notes_that_are_not_known(run: Run, honcho: HttpStage) -> None:
    notes = honcho.home / "memories"
    notes.mkdir()
    (notes / "USER.md").write_text("Likes green tea.\n§\nHas a dog.\n")
    (notes / "users").mkdir()
    assert run("sync")[1] == "2 notes sent, 0 already known\n"
    assert run("sync")[1] == "0 notes sent, 2 already known\n"
    assert set(honcho.fake.kept.of("hermes/owner").values()) == {"Likes green tea.", "Has a dog."}


def test_the_commands_are_there_only_while_it_is_in_use(run: Run, honcho: HttpStage) -> None:
    (honcho.home / "config.yaml").write_text("")
    code, said = run("status")
    assert code == 2
    assert "honcho" in said


def test_migrate_tells_the_facts_of_the_local_provider(run: Run, honcho: HttpStage) -> None:
    local = HolographicProvider()
    local.initialize("s", hermes_home=str(honcho.home))
    local.sync_turn("My editor is vim. I live in Berlin.", "Fine.")
    local.sync_turn("My editor is nano.", "Fine.")
    local.shutdown()
    assert run("migrate")[1] == "2 facts sent, 0 already known\n"
    assert run("migrate")[1] == "0 facts sent, 2 already known\n"
    kept = set(honcho.fake.kept.of("hermes/owner").values())
    assert kept == {"My editor is nano.", "I live in Berlin."}


def test_setup_says_where_it_is_done(run: Run) -> None:
    assert run("setup") == (0, "to set the key and the address: hermes memory setup honcho\n")


def test_a_refused_key_is_one_line_with_one_remedy(run: Run, honcho: HttpStage) -> None:
    honcho.site.misbehave(Fault(401, b""))
    code, said = run("peers")
    assert code != 0
    assert said.count("hermes memory setup honcho") == 1
