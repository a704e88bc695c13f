"""Who shares a conversation with whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.gateway.session_keys import build_session_key, is_shared, memory_scope
from hermes.memory import MemoryScope
from hermes.sdk.platforms import SessionSource

GROUP = SessionSource("telegram", "-100", "group", user_id="5")
THREAD = SessionSource("telegram", "-100", "group", user_id="5", thread_id="17")


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (SessionSource("telegram", "5", user_id="5"), "agent:main:telegram:dm:5"),
        (SessionSource("telegram", "5", user_id="5", thread_id="3"), "agent:main:telegram:dm:5:3"),
        (GROUP, "agent:main:telegram:group:-100:5"),
        (SessionSource("slack", "C1", "channel", user_id="U1"), "agent:main:slack:channel:C1:U1"),
        (SessionSource("telegram", "-100", "group"), "agent:main:telegram:group:-100"),
        (THREAD, "agent:main:telegram:group:-100:17"),
        (
            SessionSource("matrix", "!r:x.org", user_id="@a:x.org"),
            "agent:main:matrix:dm:!r%3Ax.org",
        ),
        (
            SessionSource("slack", "C1", "channel", user_id="U1", account="T:1@x"),
            "agent:main:slack@T%3A1%40x:channel:C1:U1",
        ),
    ],
)
def test_a_key_is_as_documented(source, key):
    assert build_session_key(source) == key


def test_private_is_another_word_for_dm():
    private = SessionSource("telegram", "5", "private", user_id="5")  # type: ignore[arg-type]
    assert build_session_key(private) == "agent:main:telegram:dm:5"


def test_a_group_is_shared_when_the_settings_say_so():
    assert build_session_key(GROUP, group_sessions_per_user=False).endswith(":group:-100")
    assert is_shared(GROUP, group_sessions_per_user=False)
    assert not is_shared(GROUP)


def test_a_thread_is_shared_unless_the_settings_say_otherwise():
    assert is_shared(THREAD)
    alone = build_session_key(THREAD, thread_sessions_per_user=True)
    assert alone == "agent:main:telegram:group:-100:17:5"


IDS = st.text(alphabet=st.sampled_from("a1:%@-\n\u200b"), min_size=1, max_size=4)


@given(IDS, IDS, IDS, IDS)
def test_ids_cannot_form_the_key_of_another_chat(one, two, other, more):
    here = SessionSource("p", one, user_id="u", thread_id=two)
    there = SessionSource("p", other, user_id="u", thread_id=more)
    same = (one, two) == (other, more)
    assert (build_session_key(here) == build_session_key(there)) is same
    assert build_session_key(here) != build_session_key(SessionSource("p", other, user_id="u"))


def test_notes_of_the_owner_are_for_private_chats():
    own = SessionSource("telegram", "5", user_id="5")
    assert memory_scope(own, owner=True) == MemoryScope()
    assert memory_scope(own) == MemoryScope(user="telegram:5")
    assert memory_scope(GROUP, owner=True) == MemoryScope(user="telegram:5", chat="telegram:-100")


def test_shared_conversation_has_no_personal_notes():
    scope = memory_scope(GROUP, shared=True)
    assert scope == MemoryScope(user="telegram:chat:-100", chat="telegram:-100")
    assert memory_scope(SessionSource("telegram", "-100", "group")) == scope
