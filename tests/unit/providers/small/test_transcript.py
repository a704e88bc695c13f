"""What a small model sees: short, the same at the front, always with the question."""

import msgspec

from hermes.core.messages import Assistant, Image, Message, System, Text, ToolCall, ToolResult, User
from hermes.providers.small_model import SMALL, estimate_tokens, fit_conversation, prompt_prefix
from tests.unit.providers.small.test_schema import READ, SEARCH, TERMINAL, WRITE

TOOLS = (TERMINAL, READ, WRITE, SEARCH)


def call(name: str, arguments: str) -> Assistant:
    return Assistant((ToolCall("c1", name, arguments),), "tool_calls")


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


def test_the_front_is_short_and_the_same_every_time():
    first, second = prompt_prefix(TOOLS, SMALL), prompt_prefix(TOOLS, SMALL)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    # Four bytes are about one token in English; the target is 700 tokens.
    assert sum(len(message.text) for message in first) < 700 * 4
    assert isinstance(first[0], System)
    assert "terminal(command, timeout)" in first[0].text


def test_examples_of_tools_that_are_not_offered_are_left_out():
    shown = texts(prompt_prefix((READ,), SMALL))
    assert '{"read_file":{"path":"settings.json"}}' in shown
    assert not any("terminal" in text or "write_file" in text for text in shown)
    assert any(text.startswith('{"reply":"The capital') for text in shown)


def test_history_takes_the_form_of_the_examples():
    history = (
        System("a long prompt the small model never sees"),
        User((Text("what is this?"), Image("data:image/png;base64,AA=="))),
        call("terminal", '{"command": "ls"}'),
        ToolResult("c1", "terminal", "a.txt\n"),
        Assistant((Text("There is a.txt."),)),
    )
    assert texts(fit_conversation(history, SMALL, 2000)) == [
        "what is this?",
        '{"terminal":{"command":"ls"}}',
        "Result:\na.txt",
        '{"reply":"There is a.txt."}',
    ]


def test_results_say_when_they_failed_and_when_they_are_empty():
    history = (
        User.say("go"),
        call("terminal", "{}"),
        ToolResult("c1", "terminal", "boom", failed=True),
        call("terminal", "not json"),
        ToolResult("c2", "terminal", " \n"),
    )
    shown = texts(fit_conversation(history, SMALL, 2000))
    assert shown[2:] == ["Result:\nError: boom", '{"terminal":"not json"}', "Result:\n[no output]"]


def test_a_json_result_is_shown_as_lines():
    result = ToolResult("c1", "mail", '{"output": "sent", "exit_code": 0, "error": null}')
    (_, _, shown) = fit_conversation((User.say("go"), call("mail", "{}"), result), SMALL, 2000)
    assert shown.text == "Result:\noutput: sent\nexit_code: 0"


def test_a_long_result_keeps_its_head_and_its_tail():
    text = "\n".join(f"line {number}" for number in range(5000))
    result = ToolResult("c1", "terminal", text)
    (_, _, shown) = fit_conversation((User.say("go"), call("terminal", "{}"), result), SMALL, 3000)
    assert "line 0\n" in shown.text
    assert shown.text.endswith("line 4999")
    assert "characters left out" in shown.text
    assert estimate_tokens((shown,), SMALL) < SMALL.result_tokens + 40


def test_old_turns_go_first_and_the_question_with_its_results_stays():
    old = [User.say(f"old question {number} " + "x" * 300) for number in range(40)]
    now = (User.say("the question"), call("terminal", "{}"), ToolResult("c1", "terminal", "42"))
    shown = texts(fit_conversation((*old, *now), SMALL, 500))
    assert shown[-3:] == ["the question", '{"terminal":{}}', "Result:\n42"]
    assert 3 < len(shown) < 10
    assert "old question 39" in shown[-4]


def test_a_turn_that_is_too_long_loses_its_oldest_results_but_not_the_question():
    steps: list[Message] = []
    for number in range(20):
        steps += [call("terminal", f'{{"n":{number}}}'), ToolResult("c", "terminal", "y" * 2000)]
    shown = fit_conversation((User.say("the question"), *steps), SMALL, 1000)
    assert shown[0].text == "the question"
    assert shown[-2].text == '{"terminal":{"n":19}}'
    assert estimate_tokens(shown, SMALL) <= 1000


def test_a_question_longer_than_the_context_is_cut_in_its_middle():
    shown = fit_conversation((User.say("begin " + "z" * 50_000 + " end"),), SMALL, 800)
    assert shown[0].text.startswith("begin")
    assert shown[0].text.endswith("end")
    assert estimate_tokens(shown, SMALL) <= 800


def test_nothing_said_is_nothing_shown():
    assert fit_conversation((System("x"),), SMALL, 100) == ()
