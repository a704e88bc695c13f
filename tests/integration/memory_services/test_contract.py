"""The contract of every memory service."""

import json
import logging
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.cli.main import main
from hermes.memory import Inspectable
from hermes.plugins import bundled_infos
from hermes.sdk.memory import ServiceError
from hermes.sdk.testing.memory import MemoryProviderContract
from tests.integration.memory_services.conftest import SERVICES, HttpStage, Stage
from tests.integration.memory_services.fakes import KEY
from tests.integration.memory_services.site import Fault

CAT = "My cat is called Miro."
ASKED = "What is my cat called?"


def test_every_shipped_service_is_in_this_suite() -> None:
    assert {kind.name for kind in SERVICES} | {"byterover"} == {
        info.name for info in bundled_infos("memory")
    } - {"holographic"}


class TestServices(MemoryProviderContract):
    statement, question = CAT, ASKED
    max_tools, max_schema_chars, max_prompt_chars = 3, 600, 150

    @pytest.fixture
    def sessions(self, stage: Stage) -> Stage:
        return stage


def test_last_turns_reach_the_service_before_shutdown(stage: Stage) -> None:
    manager = stage.begin()
    for animal in ("cat", "dog", "owl"):
        manager.sync_all(f"My {animal} is called {animal.title()}y.", "Nice.")
    manager.shutdown_all()
    later = stage.begin(session="s2")
    assert "Owly" in later.prefetch_all("What is my owl called?")
    assert "Caty" in later.prefetch_all("What is my cat called?")


def test_failing_service_is_reported_once_and_breaks_nothing(stage: Stage) -> None:
    manager = stage.begin()
    tools = [schema["name"] for schema in manager.get_all_tool_schemas()]
    stage.fail("dead")
    for _ in range(5):
        assert manager.prefetch_all(ASKED) == ""
        manager.sync_all(CAT, "Nice.")
        manager.queue_prefetch_all(CAT)
        manager.on_memory_write("add", "user", "Likes tea.")
    for tool in tools:
        said = {"query": ASKED, "fact": CAT, "question": ASKED, "id": "viking://user/x"}
        assert "error" in json.loads(manager.handle_tool_call(tool, said))
    manager.on_session_end([])
    manager.shutdown_all()
    assert len(stage.told) == 1
    assert f"the memory provider {stage.name} failed" in stage.told[0]


def test_a_service_that_keeps_failing_is_left_alone(stage: Stage) -> None:
    manager = stage.begin()
    stage.fail("dead")
    for _ in range(3):
        manager.prefetch_all(ASKED)
    before = len(stage.sent())
    for _ in range(5):
        assert manager.prefetch_all(ASKED) == ""
        manager.sync_all(CAT, "Nice.")
    manager.shutdown_all()
    assert len(stage.sent()) == before


def test_invalid_answer_is_reported_and_recalls_nothing(stage: Stage) -> None:
    manager = stage.begin()
    stage.fail("garbage")
    assert manager.prefetch_all(ASKED) == ""
    assert len(stage.told) == 1


def test_nothing_is_sent_before_there_is_something_to_say(stage: Stage) -> None:
    manager = stage.begin()
    manager.build_system_prompt()
    provider = manager.provider
    assert provider is not None
    provider.get_config_schema()
    provider.save_config({}, str(stage.home))
    assert provider.is_available()
    assert stage.sent() == []


def test_recalled_text_and_keys_are_not_sent(stage: Stage) -> None:
    manager = stage.begin()
    secret = "sk-ant-api03-" + "a1B2" * 20
    fenced = "<memory-context>\nKnown: an old thing.\n</memory-context>\n"
    manager.sync_all(f"{fenced}My key is {secret}.", f"I keep {secret} in mind.")
    manager.prefetch_all(f"Is {secret} my key?")
    manager.shutdown_all()
    sent = "".join(stage.sent())
    assert "My key is" in sent
    assert secret not in sent
    assert "an old thing" not in sent


def test_queued_recall_is_used_for_a_short_next_message(stage: Stage) -> None:
    manager = stage.begin()
    manager.sync_all(CAT, "A good name.")
    manager.on_session_end([])
    manager.queue_prefetch_all(ASKED)
    assert "Miro" in manager.prefetch_all("And why?")
    assert manager.prefetch_all("And why?") == ""


def test_notes_of_the_user_are_sent_but_not_those_of_a_chat(stage: Stage) -> None:
    manager = stage.begin()
    manager.on_memory_write("add", "user", "Prefers green tea.")
    manager.on_memory_write("add", "chat", "This chat plans a party.")
    manager.shutdown_all()
    assert "green tea" in "".join(stage.sent())
    assert "party" not in "".join(stage.sent())


def test_a_note_that_is_removed_is_forgotten(web: HttpStage) -> None:
    manager = web.begin()
    manager.on_memory_write("add", "user", "Prefers green tea.")
    manager.on_memory_write("add", "user", "Prefers green walls.")
    manager.on_session_end([])
    manager.on_memory_write("remove", "user", "Prefers green tea.")
    manager.shutdown_all()
    (facts,) = web.fake.kept.facts.values()
    assert list(facts.values()) == ["Prefers green walls."]


def test_entries_can_be_listed_changed_and_deleted(web: HttpStage) -> None:
    manager = web.begin()
    manager.on_memory_write("add", "user", "Prefers green tea.")
    manager.on_memory_write("add", "user", "Has a dog.")
    manager.on_session_end([])
    provider = manager.provider
    assert isinstance(provider, Inspectable)
    assert "2 facts" in provider.summary()
    (dog,) = [each for each in provider.entries() if "dog" in each["text"]]
    assert provider.edit(dog["id"], "Has two dogs.")
    (tea,) = provider.entries("green tea")
    assert provider.forget(tea["id"])
    assert [each["text"] for each in provider.entries()] == ["Has two dogs."]
    assert not provider.forget(tea["id"])
    assert not provider.edit(tea["id"], "Prefers coffee.")


def test_entry_of_another_user_cannot_be_changed_by_its_id(web: HttpStage) -> None:
    alice = web.begin("alice")
    alice.on_memory_write("add", "user", "Prefers green tea.")
    alice.on_session_end([])
    assert isinstance(alice.provider, Inspectable)
    (tea,) = alice.provider.entries()
    bob = web.begin("bob").provider
    assert isinstance(bob, Inspectable)
    assert bob.entries() == []
    assert not bob.forget(tea["id"])
    assert not bob.edit(tea["id"], "Prefers coffee.")
    assert [each["text"] for each in alice.provider.entries()] == ["Prefers green tea."]


@pytest.mark.parametrize("status", [400, 401, 404, 418, 429, 500, 503])
def test_the_key_is_in_no_error(web, status, caplog):
    caplog.set_level(logging.DEBUG, "hermes")
    said = {"error": {"message": f"bad key {KEY}", "details": KEY}}
    manager = web.begin()
    web.site.misbehave(Fault(status, json.dumps(said).encode()))
    manager.prefetch_all(ASKED)
    manager.sync_all(CAT, "Nice.")
    tool = manager.get_all_tool_schemas()[0]["name"]
    answer = manager.handle_tool_call(tool, {"query": ASKED})
    manager.shutdown_all()
    assert len(web.told) == 1
    assert str(status) in web.told[0]
    assert "bad key" in web.told[0]
    assert KEY not in web.told[0] + answer + caplog.text


def test_a_refused_key_is_not_sent_again_and_the_user_knows_what_to_do(web: HttpStage) -> None:
    manager = web.begin()
    web.site.misbehave(Fault(401, b'{"detail": "Invalid key"}'))
    for _ in range(4):
        assert manager.prefetch_all(ASKED) == ""
    assert len(web.site.requests) == 1
    (line,) = web.told
    assert "refused the key (401: Invalid key)" in line
    assert f"set {web.name.upper()}_API_KEY with `hermes memory setup {web.name}`" in line


def test_rate_limited_service_is_paused(web: HttpStage) -> None:
    manager = web.begin()
    web.site.misbehave(Fault(429, b"{}", {"Retry-After": "600"}))
    for _ in range(4):
        assert manager.prefetch_all(ASKED) == ""
    assert len(web.site.requests) == 1


def test_a_service_that_hangs_costs_a_turn_no_more_than_its_limit(web: HttpStage) -> None:
    web.options = {"timeout": 0.2}
    manager = web.begin()
    web.site.misbehave(Fault(hangs=True))
    assert manager.prefetch_all(ASKED) == ""
    assert "did not answer within 0.2 s" in web.told[0]


@pytest.mark.parametrize(
    "body",
    ["[]", "null", '"text"', "7", '{"results": 3}', '[[1], null, {"id": {}}]', '{"result": []}'],
)
def test_answers_of_another_form_break_nothing(web: HttpStage, body: str) -> None:
    manager = web.begin()
    web.site.misbehave(Fault(200, body.encode()))
    assert manager.prefetch_all(ASKED) == ""
    for schema in manager.get_all_tool_schemas():
        given = dict.fromkeys(schema["parameters"]["properties"], ASKED)
        json.loads(manager.handle_tool_call(schema["name"], given))
    assert isinstance(manager.provider, Inspectable)
    with suppress(ServiceError):
        assert manager.provider.entries() == []
    with suppress(ServiceError):
        assert manager.provider.forget("m1") in (True, False)
    assert all("in a form that is not understood" in line for line in web.told)


def test_tools_say_what_they_found_and_what_is_missing(stage: Stage) -> None:
    manager = stage.begin()
    manager.sync_all(CAT, "A good name.")
    manager.on_session_end([])
    tool = manager.get_all_tool_schemas()[0]
    assert "Miro" in manager.handle_tool_call(tool["name"], {"query": ASKED})
    assert json.loads(manager.handle_tool_call(tool["name"], {})) == {"error": "query is empty"}
    assert manager.provider is not None
    assert "no tool" in manager.provider.handle_tool_call("other_tool", {})


def test_fact_added_by_the_model_is_found(stage: Stage) -> None:
    manager = stage.begin()
    names = [schema["name"] for schema in manager.get_all_tool_schemas()]
    keeping = [name for name in names if name.endswith(("_add", "_curate"))]
    for tool in keeping:
        assert json.loads(manager.handle_tool_call(tool, {"fact": CAT})) == {"kept": CAT}
        assert "Miro" in manager.prefetch_all(ASKED)
    assert len(keeping) == (stage.name not in ("honcho", "hindsight", "openviking"))


def test_a_service_without_key_and_address_is_not_available(web: HttpStage) -> None:
    provider = web.provider()
    assert provider.is_available()
    (web.home / ".env").unlink()
    (web.home / f"{web.name}.json").unlink()
    assert not provider.is_available()


def test_a_key_of_the_environment_is_enough(web, monkeypatch):
    provider = web.provider()
    (web.home / ".env").unlink()
    (web.home / f"{web.name}.json").unlink()
    monkeypatch.setenv(f"{web.name.upper()}_API_KEY", KEY)
    assert provider.is_available()


def test_setup_asks_at_most_two_fields_and_hides_the_key(web: HttpStage) -> None:
    key, *rest = web.provider().get_config_schema()
    assert (key["secret"], key["env_var"]) == (True, f"{web.name.upper()}_API_KEY")
    assert key["url"].startswith("https://")
    assert len(rest) <= 1
    assert not any(field.get("secret") for field in rest)


def test_a_broken_file_of_options_is_named(web: HttpStage) -> None:
    web.options = {"recall_limt": 3}
    manager = web.begin()
    assert not manager.active
    assert f"{web.name}.json" in web.told[0]
    assert "recall_limt" in web.told[0]


def test_setup_keeps_what_was_set_before(web: HttpStage, hermes_home: Path) -> None:
    provider = web.provider()
    provider.save_config({"base_url": "http://localhost:1"}, str(hermes_home))
    options = json.loads((hermes_home / f"{web.name}.json").read_text())
    assert options == {**web.fake.settings, "base_url": "http://localhost:1"}


def test_hermes_memory_test_is_content_with_it(stage, capsys):
    stage.prepare(stage.home)
    code = main(["memory", "test", stage.name])
    said = capsys.readouterr()
    assert f"{stage.name} works" in said.out
    assert (code, said.err) == (0, "")


def test_hermes_memory_setup_saves_what_it_needs(web, capsys):
    assert main(["memory", "setup", web.name, "--set", f"api_key={KEY}"]) == 0
    assert KEY not in capsys.readouterr().out
    assert f"{web.name.upper()}_API_KEY={KEY}" in (web.home / ".env").read_text()
    assert [file for file in web.home.glob("*.json") if KEY in file.read_text()] == []
    assert web.site.requests == []
