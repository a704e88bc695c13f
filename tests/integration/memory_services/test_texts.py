"""Names and texts that services are given, and what is shown of theirs."""

from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.core.errors import ConfigError
from hermes.sdk.memory import bullet_list, objects_in, redact_outgoing, safe_id, service_scope

ROOT = Home(Path("/somewhere/.hermes"))
WORK = Home(Path("/somewhere/.hermes/profiles/work"))


def test_each_profile_and_each_user_has_a_name() -> None:
    homes, users = (ROOT, WORK), ("", "owner", "work-owner", "alice", "Alice", "alice ")
    names = [service_scope(home, "", user).flat for home in homes for user in users]
    assert len(set(names)) == len(names)
    assert names[0] == "hermes-owner"
    assert service_scope(WORK, "", "").namespace == "hermes-work"
    assert all(safe_id(name) == name for name in names)


def test_a_namespace_can_be_chosen_but_not_any() -> None:
    assert service_scope(ROOT, "team_1", "").flat == "team_1-owner"
    with pytest.raises(ConfigError, match="cannot be used"):
        service_scope(ROOT, "../other", "")


def test_lines_that_do_not_fit_are_left_out() -> None:
    lines = ["one  two", "one two", "", "x" * 50, "three"]
    assert bullet_list(lines, 30) == "- one two\n- three"
    assert bullet_list(["x" * 50], 10) == "- xxxxxxx…"
    assert bullet_list([], 10) == ""


def test_only_lists_of_objects_are_found() -> None:
    assert objects_in({"a": {"b": [{"id": 1}, 2]}}, "a", "b") == [{"id": 1}]
    assert objects_in(None, "a") == []
    assert objects_in({}, "a") == []


def test_unstorable_characters_are_removed() -> None:
    assert redact_outgoing("a\x00b\ud800c ") == "abc"
    assert len(redact_outgoing("x" * 50_000)) == 20_000
