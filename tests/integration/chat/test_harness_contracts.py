"""What evaluation frameworks rely on when they run Hermes as a program."""

import json
from pathlib import Path

from hermes.core.testing import ModelServer


def test_a_single_answer_with_all_flags_is_exported_under_both_sources(hermes, work):
    with ModelServer(["done"]) as server:
        address = ("--provider", "custom", "--base-url", f"{server.url}/v1")
        limits = ("--toolsets", "terminal,file", "--max-turns", "5")
        done = hermes("--yolo", "chat", "-q", "do it", "--model", "lab-model", *address, *limits)
        (request,) = server.calls
    assert (done.returncode, done.stdout.strip()) == (0, "done")
    assert "terminal" in json.dumps(request.body["tools"])
    for source in ("oneshot", "cli"):
        file = f"{source}.json"
        assert hermes("sessions", "export", file, "--source", source).returncode == 0
        exported = json.loads((work / file).read_text())
        assert [each["content"] for each in exported["messages"]] == ["do it", "done"]


def test_a_home_of_a_framework_makes_no_other_requests(hermes, hermes_home: Path):
    """Settings written as JSON, no bundled skills, no titles, no list of models."""
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / ".no-bundled-skills").touch()
    with ModelServer(["done", "done again"]) as server:
        openai = {
            "api": f"{server.url}/v1",
            "api_key": "key-of-the-framework",
            "discover_models": False,
            "transport": "chat_completions",
        }
        settings = {
            "model": {"provider": "openai", "default": "lab-model", "max_tokens": 500},
            "providers": {"openai": openai},
            "approvals": {"mode": "off"},
            "auxiliary": {"title_generation": {"enabled": False}},
        }
        (hermes_home / "config.yaml").write_text(json.dumps(settings))
        assert "no mistakes" in hermes("config", "check").stdout
        done = hermes("chat", "-q", "do it")
        assert hermes("chat", "--continue", "-q", "again").returncode == 0
        paths = [(request.method, request.path) for request in server.requests]
        first = server.calls[0]
    assert (done.returncode, done.stdout.strip()) == (0, "done")
    assert paths == [("POST", "/v1/chat/completions")] * 2
    assert first.headers["authorization"] == "Bearer key-of-the-framework"
    assert "no skills yet" in hermes("skills", "list").stdout
