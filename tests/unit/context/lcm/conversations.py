"""Conversations to compact, a log that plays the part of the store, and summarisers."""

import copy
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from hermes.context.engine import Dicts, SummaryAnswer, SummaryModel
from hermes.core.errors import Unreachable
from hermes.core.messages import (
    Assistant,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    from_dict,
    to_dict,
)
from hermes_plugins.context.lcm import LcmEngine, LcmOptions
from hermes_plugins.context.lcm.notes import notes_in, open_conversation
from hermes_plugins.context.lcm.writer import message_as_text

Turn = list[Message]
SMALL = LcmOptions(protect_last_n=4, page_chars=2000)
WINDOW = 6000
"""Tokens: 3000 are the threshold, 600 the budget of the tail, 300 that of the notes."""

_PIECE = re.compile(r"^--- (\d+) .*\n", re.MULTILINE)
_MORE = re.compile(r'\[more: lcm_expand\(id="(\w+)", offset=(\d+)(?:, from_char=(\d+))?\)\]\Z')


def user(text: str) -> Message:
    return User.say(text)


def reply(text: str) -> Message:
    return Assistant((Text(text),))


def group(*calls: tuple[str, str, str], text: str = "") -> Turn:
    """An assistant message with calls (id, name, arguments) and their results."""
    parts = (*((Text(text),) if text else ()), *(ToolCall(*call) for call in calls))
    results = [ToolResult(call, name, f"result of {call}") for call, name, _ in calls]
    return [Assistant(parts, finish_reason="tool_calls"), *results]


def answered(call: str, name: str, arguments: str, result: str) -> Turn:
    return [
        Assistant((ToolCall(call, name, arguments),), finish_reason="tool_calls"),
        ToolResult(call, name, result),
    ]


def gone(before: Dicts, after: Dicts) -> Dicts:
    """What a compaction took out of the context; a message joined to the notes is still there."""
    had, has = open_conversation(before).messages, open_conversation(after).messages
    kept = {id(each) for each in has}
    fresh = [each for each in has if not any(each is one for one in before)]
    left: Dicts = []
    for each in reversed(had):
        if id(each) in kept:
            continue
        if each in fresh:
            fresh.remove(each)
        else:
            left.append(each)
    return left[::-1]


class Conversation:
    """What the agent and the store do around an engine."""

    def __init__(self, engine: LcmEngine, summarisers: tuple[SummaryModel, ...] = ()) -> None:
        self.log: list[dict[str, Any]] = []
        self.context = [to_dict(System("You are Hermes."))]
        self.compacted: list[str] = []
        """Every message that left the context, as text, in the order in which they left."""
        self.summarisers = summarisers
        self.sessions = 1
        self.use(engine)

    def use(self, engine: LcmEngine, **kw: Any) -> None:
        """Start, or after a compaction go on, with this engine."""
        self.engine = engine
        engine.on_session_start(
            f"s{self.sessions}", summarisers=self.summarisers, history=self.history, **kw
        )

    def history(self) -> list[dict[str, Any]]:
        return list(self.log)

    def restart(self, options: LcmOptions = SMALL) -> None:
        """A new process: nothing is left but the log and the context, written and read again."""
        self.context = [to_dict(from_dict(each)) for each in self.context]
        self.use(LcmEngine(self.engine.context_length, options))

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.log.append(to_dict(message))
            self.context.append(to_dict(message))

    def undo(self, count: int) -> None:
        """Messages leave the context, not the log."""
        del self.context[max(1, len(self.context) - count) :]

    def compact(self, focus: str = "") -> list[dict[str, Any]]:
        before, given = list(self.context), copy.deepcopy(self.context)
        after = self.engine.compress(list(before), None, focus)
        assert before == given, "the messages that were given changed"
        known = {id(each) for each in before}
        self.compacted += [message_as_text(from_dict(each)) for each in gone(before, after)]
        self.log += [copy.deepcopy(each) for each in after if id(each) not in known]
        self.context = after
        self.sessions += 1
        self.use(self.engine, parent_session_id=f"s{self.sessions - 1}")
        return before

    def notes(self) -> dict[str, Any]:
        (found,) = [each for each in self.context if notes_in(each)]
        return found

    def ids(self) -> list[str]:
        found = [notes_in(each) for each in self.context]
        return [node.id for notes in found if notes for node in notes.nodes]

    def call(self, tool: str, **args: Any) -> str:
        return self.engine.handle_tool_call(tool, args)

    def originals(self) -> list[str]:
        """Everything lcm_expand gives back, starting from the notes in the context."""
        return [text for node in self.ids() for text in self.expanded(node)]

    def expanded(self, node: str) -> list[str]:
        """The messages below a node, as the model gets them: page by page, child by child."""
        page = self.call("lcm_expand", id=node)
        if page.startswith(f"{node} was made of"):
            lines = page.splitlines()[1:]
            while more := _MORE.search(page):
                page = self.call("lcm_expand", id=node, offset=int(more[2]))
                lines = [*lines[:-1], *page.splitlines()[1:]]
            children = [line.split(" ")[1] for line in lines]
            return [text for child in children for text in self.expanded(child)]
        texts: dict[int, str] = {}
        while True:
            body, end = page.rsplit("\n", 1)
            _, *pieces = _PIECE.split(f"{body}\n")
            for number, text in zip(pieces[::2], pieces[1::2], strict=True):
                texts[int(number)] = texts.get(int(number), "") + text.removesuffix("\n")
            more = _MORE.fullmatch(end)
            if more is None:
                assert end == f"[end of {node}]"
                return [texts[number] for number in sorted(texts)]
            page = self.call(
                "lcm_expand", id=node, offset=int(more[2]), from_char=int(more[3] or 0)
            )


def summariser(
    write: Callable[[str], str] = lambda asked: f"They spoke of: {' '.join(asked.split()[:120:2])}",
    window: int = 100_000,
) -> SummaryModel:
    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        assert most > 0
        return SummaryAnswer(write(messages[-1]["content"]), "scripted")

    return SummaryModel(ask, window)


def failing() -> SummaryModel:
    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        raise Unreachable("no route to the model")

    return SummaryModel(ask, 100_000)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """A request, any number of rounds of tools, an answer. Many messages are equal to others."""
    words = st.sampled_from(["yes", "go on", "look at src/app.py", "why does it fail? " * 20])
    made: Turn = [user(draw(words))]
    for _ in range(draw(st.integers(0, 5))):
        calls = [
            (f"call_{draw(st.integers(0, 9))}_{n}", "read_file", '{"path": "src/app.py"}')
            for n in range(draw(st.integers(1, 3)))
        ]
        round_ = group(*calls, text=draw(st.sampled_from(["", "I see."])))
        size = draw(st.sampled_from([1, 40, 200, 1000]))
        made += [
            ToolResult(each.call_id, each.name, f"{each.text} {'data ' * size}".strip())
            if isinstance(each, ToolResult)
            else each
            for each in round_
        ]
    return [*made, reply(draw(st.sampled_from(["Done.", "It works now. " * 30])))]
