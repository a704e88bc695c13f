"""The contract of memory providers, as tests: subclass `MemoryProviderContract` in a test module.

    class TestMine(MemoryProviderContract):
        @pytest.fixture
        def sessions(self, tmp_path):
            with closing(MemorySessions(MyProvider, tmp_path)) as sessions:
                yield sessions

The tests use the provider through `MemoryManager`, as Hermes does.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.memory import Inspectable, ManagerOptions, MemoryManager, MemoryProvider
from hermes.plugins import IsolationLimits

PATIENT = ManagerOptions(IsolationLimits(turn=60, start=60, tool=60, end=60))
"""Time limits that a busy machine does not reach."""


class MemorySessions:
    """Conversations with one provider, each with its own `MemoryManager` as Hermes uses it."""

    def __init__(self, make: Callable[[], MemoryProvider], home: Path) -> None:
        self._make, self.home = make, home
        self.told: list[str] = []  #: The lines that were shown to the user.
        self._managers: list[MemoryManager] = []

    def begin(self, user: str = "", session: str = "s1", home: Path | None = None) -> MemoryManager:
        """Start a conversation of `user` ("" for the owner) in `home`, by default `self.home`."""
        place = home or self.home
        self.prepare(place)
        manager = MemoryManager(tell=self.told.append, options=PATIENT)
        manager.add_provider(self._make())
        manager.initialize_all(session, platform="cli", hermes_home=str(place), user_id=user)
        self._managers.append(manager)
        return manager

    def prepare(self, home: Path) -> None:
        """Make what a user sets up before the first conversation in `home`."""
        home.mkdir(parents=True, exist_ok=True)

    def provider(self, user: str = "") -> Any:
        """Return the provider as `hermes memory` uses it, without the manager."""
        return self.begin(user).provider

    def close(self) -> None:
        for manager in self._managers:
            manager.shutdown_all()


class MemoryProviderContract:
    """What every provider keeps to. Override the attributes if it learns from other sentences."""

    statement = "My cat is called Miro."
    question = "What is my cat called?"
    learned = "Miro"  #: The part of `statement` that has to be recalled for `question`.
    max_tools, max_schema_chars, max_prompt_chars = 4, 2_000, 300

    @pytest.fixture
    def sessions(self, tmp_path: Path) -> Any:
        """Yield a `MemorySessions`; close it at the end."""
        raise NotImplementedError("define the fixture `sessions` in the subclass")

    def tell(self, manager: MemoryManager) -> None:
        manager.sync_all(self.statement, "Noted.", session_id="s1")

    def test_a_statement_is_recalled_in_a_later_session(self, sessions: MemorySessions) -> None:
        first = sessions.begin()
        self.tell(first)
        first.on_session_end([{"role": "user", "content": self.statement}])
        first.shutdown_all()
        assert self.learned in sessions.begin(session="s2").prefetch_all(self.question)
        assert sessions.told == []

    def test_the_last_turn_is_stored_before_the_end(self, sessions: MemorySessions) -> None:
        manager = sessions.begin()
        for _ in range(3):
            self.tell(manager)
        manager.shutdown_all()
        assert self.learned in sessions.begin(session="s2").prefetch_all(self.question)

    def test_users_do_not_see_what_others_said(self, sessions: MemorySessions) -> None:
        alice = sessions.begin("telegram:alice")
        self.tell(alice)
        alice.shutdown_all()
        for other in ("telegram:bob", "telegram-alice", ""):
            recalled = sessions.begin(other, "s2").prefetch_all(self.question)
            assert self.learned not in recalled
        again = sessions.begin("telegram:alice", "s2")
        assert self.learned in again.prefetch_all(self.question)

    def test_profiles_do_not_share_what_was_said(self, sessions: MemorySessions) -> None:
        mine = sessions.begin()
        self.tell(mine)
        mine.shutdown_all()
        work = sessions.begin(session="s2", home=sessions.home / "profiles" / "work")
        assert self.learned not in work.prefetch_all(self.question)

    def test_the_prompt_and_the_tools_are_short(self, sessions: MemorySessions) -> None:
        manager = sessions.begin()
        schemas = manager.get_all_tool_schemas()
        assert len(schemas) <= self.max_tools
        assert len(json.dumps(schemas)) < self.max_schema_chars
        assert len(manager.build_system_prompt()) < self.max_prompt_chars

    def test_tools_answer_wrong_arguments_with_json(self, sessions: MemorySessions) -> None:
        manager = sessions.begin()
        for schema in manager.get_all_tool_schemas():
            if not schema["parameters"].get("required"):
                continue  # it can be called without arguments
            assert "error" in json.loads(manager.handle_tool_call(schema["name"], {}))
        assert manager.provider is not None
        assert "error" in json.loads(manager.provider.handle_tool_call("no_such_tool", {}))

    def test_setup_fields_have_keys_and_hide_secrets(self, sessions: MemorySessions) -> None:
        for field in sessions.provider().get_config_schema():
            assert field["key"]
            assert not field.get("secret") or field.get("env_var")

    def test_stored_entries_can_be_listed_and_forgotten(self, sessions: MemorySessions) -> None:
        manager = sessions.begin()
        self.tell(manager)
        manager.on_session_end([])
        provider: object = manager.provider
        if not isinstance(provider, Inspectable):
            return  # optional
        assert provider.summary()
        for entry in provider.entries():
            assert provider.forget(entry["id"])
            assert not provider.forget(entry["id"])
        assert provider.entries() == []
