"""Hypothesis strategies for conversations."""

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

texts = st.text(max_size=30)
names = st.text(min_size=1, max_size=10)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
calls = st.builds(ToolCall, id=names, name=texts, arguments=texts, extra=st.none() | objects)
thoughts = st.builds(
    Thinking,
    text=texts,
    details=st.lists(objects, max_size=2).map(tuple),
    items=st.lists(objects, max_size=2).map(tuple),
)
user_parts = st.builds(Text, texts) | st.builds(Image, texts)
users = st.builds(User, st.lists(user_parts, max_size=4).map(tuple))
assistants = st.builds(
    Assistant,
    st.lists(st.builds(Text, texts) | thoughts | calls, max_size=5).map(tuple),
    finish_reason=names,
)
results = st.builds(ToolResult, call_id=texts, name=texts, text=texts)
messages = st.builds(System, texts) | users | assistants | results
