"""Tool calls in a text are found, however the text is torn."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.acp.protocol import ParsedCall, ToolCallSplitter, format_call


def read(*pieces: str) -> tuple[str, list[ParsedCall]]:
    """All that is said, and the calls."""
    splitter = ToolCallSplitter()
    said = "".join([splitter.feed(piece) for piece in pieces])
    rest, calls = splitter.end()
    return said + rest, calls


def block(name: str, arguments: object) -> str:
    return f"```tool_call\n{json.dumps({'name': name, 'arguments': arguments})}\n```"


FENCED = {"path": "a.md", "content": "# A\n```sh\nls\n```\n\n```tool_call\n{}\n```\n"}


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("plain", "plain", []),
        ("code:\n```python\nx = 1\n```\n", "code:\n```python\nx = 1\n```\n", []),
        ("a `tool_call` is", "a `tool_call` is", []),
        (block("t", {"a": 1}), "", [("t", {"a": 1})]),
        ("Look: " + block("t", {}), "Look:", [("t", {})]),
        (block("t", {}) + block("u", {}), "", [("t", {}), ("u", {})]),
        (f"A\n\n{block('t', {})}\n\nB\n\n{block('u', {})}\nC", "A\n\nB\n\nC", None),
        (block("write", FENCED) + "\ndone", "done", [("write", FENCED)]),
        ('```tool_call\n{"name": "t"}', "", [("t", {})]),
        ('````tool_call \r\n{"name": "t", "arguments": {}}\r\n````\r\n', "", [("t", {})]),
        ('```tool_call\n{"name":"t","arguments":"{\\"a\\": 1}"}\n```', "", [("t", {"a": 1})]),
        ('```tool_call\n{"name":"t","arguments":{"a":"x\ny"}}\n```', "", [("t", {"a": "x\ny"})]),
    ],
)
def test_calls_and_text_are_told_apart(text, said, calls):
    spoken, found = read(text)
    assert spoken == said
    if calls is not None:
        assert [(call.name, json.loads(call.arguments)) for call in found] == calls


def test_a_call_that_is_no_json_goes_to_the_tool_which_says_so():
    said, calls = read('```tool_call\n{"name": "t", "arguments": {"a": }}\n```\nafter')
    assert said == "after"
    assert calls == [ParsedCall("t", '{"name": "t", "arguments": {"a": }}')]


def test_text_in_front_of_a_call_does_not_wait_for_it():
    splitter = ToolCallSplitter()
    assert splitter.feed("I look.\n\n```tool") == "I look."
    assert splitter.feed("_call\n{") == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    st.lists(st.sampled_from(["word ", "\n", "`", "```", "```sh\n", "tool_call", "é "])),
    st.lists(st.dictionaries(st.text(), JSON), max_size=3),
    st.randoms(use_true_random=False),
)
def test_tearing_the_text_changes_nothing(words, arguments, random):
    blocks = [format_call("t", json.dumps(given)) for given in arguments]
    text = "".join(words) + "\n" + "\n".join(blocks)
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(5))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(*pieces) == read(text)
    if not words:
        assert [json.loads(call.arguments) for call in read(text)[1]] == arguments
