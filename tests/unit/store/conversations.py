"""Strategies that make messages, for the property tests of the store."""

from hypothesis import strategies as st

from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)

# Any character at all, NUL and lone surrogates included.
wild_text = st.text(st.characters(), max_size=30)
ids = st.sampled_from(["call_1", "call_2", "call_3"])
json_objects = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9)
)
user_text = wild_text | st.sampled_from(
    [
        "[]",
        "[1]",
        '[{"type":"text","text":"x"}]',
        '[{"type": "image_url", "image_url": {"url": "u"}}]',
        '[{"type":"text"',
    ]
)

calls = st.builds(ToolCall, ids, wild_text, wild_text, st.none() | json_objects)
thoughts = st.builds(
    Thinking,
    wild_text,
    st.lists(json_objects, max_size=2).map(tuple),
    st.lists(json_objects, max_size=2).map(tuple),
)
systems = st.builds(System, wild_text)
users = st.builds(
    User,
    st.lists(st.builds(Text, user_text) | st.builds(Image, wild_text), min_size=1, max_size=3).map(
        tuple
    ),
)
replies = st.builds(
    Assistant,
    st.lists(thoughts | st.builds(Text, wild_text) | calls, max_size=4).map(tuple),
    st.sampled_from(["stop", "length", "tool_calls"]),
)
results = st.builds(ToolResult, ids, wild_text, wild_text, st.booleans())
messages = systems | users | replies | results
histories = st.lists(messages, max_size=12)
