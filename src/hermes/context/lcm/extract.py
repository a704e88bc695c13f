"""What can be said of messages without a model: words of the user, tools, files, the todo list."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hermes.context.compressor.files import files_of
from hermes.context.lcm.notes import PREFIX, todo_in
from hermes.core.messages import Assistant, Image, Message, Text, ToolResult, User
from hermes.core.openai_format import to_dict
from hermes.util.text import cut_middle

MOST_FILES = 20

_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n")


def label(message: Message) -> str:
    name = message.name if isinstance(message, ToolResult) else ""
    return f"{message.role} {name}".strip()


def shown(message: Message) -> str:
    """A message as text. Thoughts are left out; an image is only named."""
    match message:
        case User():
            return "\n".join(
                part.text if isinstance(part, Text) else _image(part) for part in message.parts
            )
        case Assistant():
            calls = (f"-> {call.name} {call.arguments}" for call in message.calls)
            return "\n".join(text for text in (message.text, *calls) if text)
        case _:
            return message.text


def _image(part: Image) -> str:
    if part.url.startswith("data:"):
        return f"[image {part.url.partition(',')[0]}, {len(part.url):,} characters]"
    return f"[image {part.url}]"


def files_in(messages: Iterable[Message]) -> list[str]:
    """Files that were worked with, those used last and most first."""
    return files_of([to_dict(message) for message in messages])[:MOST_FILES]


def findings_in(messages: Iterable[Message]) -> list[str]:
    """What the assistant said, sentence by sentence."""
    said = [message.text for message in messages if isinstance(message, Assistant)]
    sentences = (sentence for text in said for sentence in _SENTENCE_END.split(text))
    return [f"- {' '.join(sentence.split())}" for sentence in sentences]


def tools_in(messages: Iterable[Message]) -> str:
    """`read_file ×3, terminal ×2`, the most used first."""
    names = (
        call.name
        for message in messages
        if isinstance(message, Assistant)
        for call in message.calls
    )
    return ", ".join(f"{name} ×{count}" for name, count in Counter(names).most_common())


def outline(messages: Sequence[Message], most_chars: int) -> str:
    """Notes without a model: the first words of each message of the user, tools and files."""
    facts = [
        f"{what}: {said}"
        for what, said in (
            ("Tools", tools_in(messages)),
            ("Files", ", ".join(files_in(messages))),
        )
        if said
    ]
    words = [
        " ".join(message.text.split())
        for message in messages
        if isinstance(message, User) and not message.text.startswith(PREFIX)
    ]
    room = max(0, most_chars - sum(len(fact) + 1 for fact in facts))
    each = max(40, room // max(1, len(words)) - len("- user: \n"))
    lines = [f"- user: {text[:each]}{'…' if len(text) > each else ''}" for text in words]
    answer = next((m.text for m in reversed(messages) if isinstance(m, Assistant) and m.text), "")
    if answer:
        lines.append(f"- last answer: {' '.join(answer.split())[:each]}")
    return cut_middle("\n".join([*lines, *facts]), most_chars)


def newest_todo(messages: Sequence[Message]) -> tuple[int, str] | None:
    """The newest todo list with the index of the message that shows it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ToolResult) and message.name in ("todo", ""):
            shown_list = todo_in(message.text)
            if shown_list:
                return index, shown_list
    return None
