"""What each service is sent, word by word."""

from typing import Any

import pytest

from hermes.core.errors import ConfigError
from hermes_plugins.memory.mem0 import Mem0Options, Mem0Provider
from hermes_plugins.memory.openviking import OpenVikingProvider
from tests.cases import table_test
from tests.integration.memory_services import fakes
from tests.integration.memory_services.conftest import Open
from tests.integration.memory_services.fakes import KEY

FLAT = "hermes-owner"


@table_test
def test_a_turn_as_the_service_documents_it(serve, kind, expected):
    stage = serve(getattr(fakes, kind))
    manager = stage.begin()
    manager.sync_all("Hi.", "Hello.")
    manager.shutdown_all()
    sent = [[each.method, each.path, each.body] for each in stage.site.requests]
    assert sent == expected


@table_test
def test_a_search_as_the_service_documents_it(serve, kind, path, body):
    stage = serve(getattr(fakes, kind))
    stage.begin().prefetch_all("Tea?")
    (request,) = stage.site.requests
    assert (request.method, request.path, request.body) == ("POST", path, body)
    assert request.headers["content-type"] == "application/json"


def test_retaindb_is_sent_messages_with_their_time(serve: Open) -> None:
    stage = serve(fakes.RetainDb)
    manager = stage.begin("alice", "s 1")
    manager.sync_all("Hi.", "")
    manager.shutdown_all()
    (request,) = stage.site.requests
    assert request.path == "/v1/memory/ingest/session"
    assert request.body["user_id"].startswith("hermes-alice-")
    assert request.body["session_id"].startswith("s-1-")
    (message,) = request.body["messages"]
    assert (message["role"], message["content"]) == ("user", "Hi.")


def test_mem0_keeps_a_fact_as_it_is(serve: Open) -> None:
    stage = serve(fakes.Mem0Platform)
    manager = stage.begin()
    manager.on_memory_write("replace", "memory", "Deploys are on Fridays.")
    manager.shutdown_all()
    assert stage.site.requests[0].body == {
        "user_id": FLAT,
        "messages": [{"role": "user", "content": "Deploys are on Fridays."}],
        "metadata": {"source": "hermes"},
        "infer": False,
    }


def test_mem0_without_address_is_the_platform() -> None:
    provider = Mem0Provider()
    assert provider.headers(KEY) == {"Authorization": f"Token {KEY}"}
    provider.options = Mem0Options(base_url="https://api.mem0.ai/")
    assert provider.headers(KEY) == {"Authorization": f"Token {KEY}"}
    provider.options = Mem0Options(base_url="http://localhost:8888")
    assert provider.headers(KEY) == {"X-API-Key": KEY}
    assert provider.headers("") == {}


def test_hindsight_reflects_on_a_question(serve: Open) -> None:
    stage = serve(fakes.Hindsight)
    manager = stage.begin()
    manager.sync_all("My cat is called Miro.", "Nice.")
    answer = manager.handle_tool_call("hindsight_reflect", {"query": "cats"})
    assert "About cats" in answer
    assert "Miro" in answer


def test_openviking_reads_what_it_found(serve: Open) -> None:
    stage = serve(fakes.OpenViking)
    manager = stage.begin()
    manager.sync_all("My cat is called Miro.", "Nice.")
    manager.on_session_end([])
    found = manager.handle_tool_call("viking_search", {"query": "cat"})
    assert "viking://user/hermes-owner/memories/m1" in found
    uri = "viking://user/hermes-owner/memories/m1"
    assert "Miro" in manager.handle_tool_call("viking_read", {"id": uri})


def test_openviking_commits_a_session_once(serve: Open) -> None:
    stage = serve(fakes.OpenViking)
    manager = stage.begin()
    manager.sync_all("Hi.", "Hello.")
    manager.on_session_end([])
    manager.shutdown_all()
    commits = [path for _method, path in stage.site.calls() if path.endswith("/commit")]
    assert len(commits) == 1


def test_openviking_with_a_plain_key_serves_the_owner_only(serve: Open, tmp_path: Any) -> None:
    stage = serve(fakes.OpenViking)
    stage.options = {"account": ""}
    stage.prepare(stage.home)
    stage.prepare(stage.home / "profiles" / "work")
    owner = OpenVikingProvider()
    owner.initialize("s1", hermes_home=str(stage.home))
    assert owner.headers(KEY) == {"X-API-Key": KEY}
    owner.shutdown()
    with pytest.raises(ConfigError, match="other users"):
        OpenVikingProvider().initialize("s1", hermes_home=str(stage.home), user_id="alice")
    with pytest.raises(ConfigError, match="profiles"):
        OpenVikingProvider().initialize("s1", hermes_home=str(stage.home / "profiles" / "work"))
