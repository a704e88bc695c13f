"""Tool calls in raw text: each format there and back, in pieces, and with faults."""

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import UsageError
from hermes.core.messages import ToolCall
from hermes.envs.parsers import ToolCallStream, get_parser, list_parsers
from tests.cases import table_test

Call = tuple[str, dict]
SCHEMAS = {
    "write_file": {
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "lines": {"type": "integer"},
            "flags": {"type": "array"},
            "options": {"type": "object"},
            "force": {"type": "boolean"},
        }
    },
    "ns.tool-2": {"properties": {"path": {"type": "string"}}},
    "now": {"properties": {}},
}

# What the chat template of each format renders.


def tags(calls: list[Call], opening: str = "<tool_call>", closing: str = "</tool_call>") -> str:
    each = (
        f"{opening}\n{json.dumps({'name': name, 'arguments': arguments})}\n{closing}"
        for name, arguments in calls
    )
    return "\n".join(each)


def to_json(value: object) -> str:
    """Return JSON as the filter `tojson` of a template writes it."""
    text = json.dumps(value, sort_keys=True)
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def arguments_first(calls: list[Call]) -> str:
    """The template of vLLM for Hermes models."""
    return "".join(
        f'\n<tool_call>\n{{ "arguments": {to_json(arguments)}, "name": "{name}"}}\n</tool_call> '
        for name, arguments in calls
    )


def untyped(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def mistral(calls: list[Call]) -> str:
    listed = [
        {"name": name, "arguments": arguments, "id": f"abcdefg{number:02}"}
        for number, (name, arguments) in enumerate(calls)
    ]
    return f"[TOOL_CALLS] {to_json(listed)}"


def mistral_args(calls: list[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(a)}" for name, a in calls)


def llama3(calls: list[Call]) -> str:
    return "; ".join(json.dumps({"name": name, "parameters": a}) for name, a in calls)


def qwen3_coder(calls: list[Call], untyped: Callable[[object], str] = untyped) -> str:
    def one(name: str, arguments: dict) -> str:
        inside = "".join(
            f"<parameter={key}>\n{untyped(value)}\n</parameter>\n"
            for key, value in arguments.items()
        )
        return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"

    return "\n".join(one(*call) for call in calls)


def glm(calls: list[Call], prefix: str = "", tag: str = "tool_call", gap: str = "\n") -> str:
    def one(name: str, arguments: dict) -> str:
        inside = "".join(
            f"<{prefix}arg_key>{key}</{prefix}arg_key>{gap}"
            f"<{prefix}arg_value>{untyped(value)}</{prefix}arg_value>{gap}"
            for key, value in arguments.items()
        )
        return f"<{tag}>{name}{gap}{inside}</{tag}>"

    return "\n".join(one(*call) for call in calls)


def deepseek(calls: list[Call], *, fenced: bool) -> str:
    def one(name: str, arguments: dict) -> str:
        text = json.dumps(arguments, ensure_ascii=False)
        inside = (
            f"function<｜tool▁sep｜>{name}\n```json\n{text}\n```"
            if fenced
            else f"{name}<｜tool▁sep｜>{text}"
        )
        return f"<｜tool▁call▁begin｜>{inside}<｜tool▁call▁end｜>"

    between = "\n" if fenced else ""
    joined = between.join(one(*call) for call in calls)
    return f"<｜tool▁calls▁begin｜>{joined}<｜tool▁calls▁end｜>"


def kimi(calls: list[Call]) -> str:
    each = (
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
        f"{json.dumps(arguments)}<|tool_call_end|>"
        for number, (name, arguments) in enumerate(calls, 7)
    )
    return f"<|tool_calls_section_begin|>{''.join(each)}<|tool_calls_section_end|>"


def python_text(value: object) -> str:
    """Return a value as the template of qwen3_coder writes it: True, not true."""
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


LONGCAT = ("<longcat_tool_call>", "</longcat_tool_call>")
FORMATS: list[tuple[str, Callable[[list[Call]], str]]] = [
    ("hermes", tags),
    ("hermes", arguments_first),
    ("qwen", tags),
    ("mistral", mistral),
    ("mistral", mistral_args),
    ("llama3_json", llama3),
    ("llama3_json", lambda calls: f"<|python_tag|>{llama3(calls)}"),
    ("qwen3_coder", qwen3_coder),
    ("qwen3_coder", lambda calls: qwen3_coder(calls, python_text)),
    ("deepseek_v3", lambda calls: deepseek(calls, fenced=True)),
    ("deepseek_v3_1", lambda calls: deepseek(calls, fenced=False)),
    ("kimi_k2", kimi),
    ("longcat", lambda calls: tags(calls, *LONGCAT)),
    ("longcat", lambda calls: glm(calls, "longcat_", "longcat_tool_call")),
    ("glm45", glm),
    ("glm47", lambda calls: glm(calls, gap="")),
]
KEEPS_NO_TAGS = {"qwen3_coder", "glm45", "glm47", "longcat"}
"""Formats whose untyped values cannot contain their own tags: the templates do not escape them."""

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
texts = st.lists(words, max_size=3).map("\n".join)
call_lists = st.lists(
    st.one_of(
        st.tuples(
            st.just("write_file"),
            st.fixed_dictionaries(
                {"path": words, "content": texts},
                optional={
                    "lines": st.integers(-9, 9),
                    "flags": st.lists(st.booleans(), max_size=2),
                    "options": st.dictionaries(words, st.integers(0, 3), max_size=2),
                    "force": st.booleans(),
                },
            ),
        ),
        st.tuples(st.just("ns.tool-2"), st.fixed_dictionaries({"path": words})),
        st.tuples(st.just("now"), st.just({})),
    ),
    min_size=1,
    max_size=3,
)


def plain(calls: list[ToolCall]) -> list[Call]:
    return [(call.name, json.loads(call.arguments)) for call in calls]


def has_tags(calls: list[Call]) -> bool:
    return any("<" in untyped(value) for _, given in calls for value in given.values())


def test_there_is_a_parser_for_each_documented_name():
    assert sorted(list_parsers()) == sorted({name for name, _ in FORMATS})
    with pytest.raises(UsageError, match="there is no parser"):
        get_parser("hermess")


@pytest.mark.parametrize("place", range(len(FORMATS)))
@given(call_lists, words, st.integers(0, 2**32))
def test_calls_come_back_as_they_were_rendered_whole_and_in_pieces(place, calls, said, seed):
    name, render = FORMATS[place]
    if name in KEEPS_NO_TAGS and has_tags(calls):
        return
    parser, said = get_parser(name), said.strip()
    if parser.starts_text or any(mark[0] in said for mark in parser.marks):
        said = ""
    text = f"{said}\n\n{render(calls)}" if said else render(calls)
    content, found = parser.parse(text, SCHEMAS)
    assert (content, plain(found)) == (said, calls)
    stream, chance, pieces, position = ToolCallStream(parser, SCHEMAS), random.Random(seed), [], 0
    while position < len(text):
        size = chance.randint(1, 7)
        pieces.append(stream.feed(text[position : position + size]))
        position += size
    rest, streamed = stream.end()
    assert ("".join((*pieces, rest)), streamed) == (content, found)


@pytest.mark.parametrize("place", range(len(FORMATS)))
@given(call_lists, st.data())
def test_damaged_text_never_raises_and_never_changes_arguments(place, calls, data):
    """A text that was cut off has the calls before the cut, with their own arguments."""
    name, render = FORMATS[place]
    if name in KEEPS_NO_TAGS and has_tags(calls):
        return
    text = render(calls)
    cut = text[: data.draw(st.integers(0, len(text)))]
    _, found = get_parser(name).parse(cut, SCHEMAS)
    assert plain(found) == calls[: len(found)]
    characters = list(text)
    data.draw(st.randoms()).shuffle(characters)
    get_parser(name).parse("".join(characters), SCHEMAS)


MARKS = sorted({mark for name in list_parsers() for mark in get_parser(name).marks})
pieces = st.sampled_from([*'<>|[]{}":;,\n\\ a1', *MARKS, "</think>", '{"name": "a"', "[ARGS]"])


@given(st.lists(pieces, max_size=40).map("".join))
def test_any_text_is_parsed_without_an_error(text):
    for name in list_parsers():
        parser = get_parser(name)
        content, calls = parser.parse(text)
        if not calls:
            assert content == text
        stream = ToolCallStream(parser)
        assert stream.feed(text) + stream.end()[0] == content


@table_test
def test_real_outputs_with_faults(parser: str, text: str, content: str, calls: list[list]):
    found_content, found = get_parser(parser).parse(text, SCHEMAS)
    assert [[call.name, json.loads(call.arguments)] for call in found] == calls
    assert found_content == content


def test_ids_are_kept_where_the_format_has_them():
    (call,) = get_parser("kimi_k2").parse(kimi([("now", {})]))[1]
    assert (call.name, call.id) == ("now", "functions.now:7")
    (call,) = get_parser("mistral").parse(mistral([("now", {})]))[1]
    assert call.id == "abcdefg00"
    (call,) = get_parser("mistral").parse("[TOOL_CALLS]now[CALL_ID]xYz123456[ARGS]{}")[1]
    assert (call.name, call.id) == ("now", "xYz123456")
