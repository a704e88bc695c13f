"""A whole request as one prompt: an agent takes a prompt, not a conversation with tools."""

import re
from typing import Any, assert_never
from xml.sax.saxutils import quoteattr

import msgspec

from hermes.core.messages import Assistant, Image, Message, System, Text, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest
from hermes.providers.acp.calls import INSTRUCTION, described, written

OPENING = """\
You are the language model inside of a program called Hermes, and this is one request of it. \
Write the next message of the assistant in the conversation below, and nothing else. Your own \
tools are switched off here and your working folder is empty: never call them. Only the tools \
listed here exist, and Hermes runs them on the user's machine."""
CLOSING = "Now write the next message of the assistant."

_TAG = re.compile(r"<(?=/?message\b)", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.+)", re.DOTALL)


def prompt_blocks(request: ModelRequest, *, images: bool) -> list[dict[str, Any]]:
    """Content blocks in order. The front only depends on the system text and the tools.

    Without `images` the place of each is marked by a word.
    """
    page = _Page(images)
    page.text(OPENING)
    messages = request.messages
    if messages and isinstance(messages[0], System):
        page.text(f"# Instructions\n\n{messages[0].text}")
        messages = messages[1:]
    if request.tools:
        page.text(f"# Tools\n\n{INSTRUCTION}\n\n{described(request.tools)}")
    page.text("# Conversation")
    for message in messages:
        page.message(message)
    if request.reply_schema is not None:
        schema = msgspec.json.encode(request.reply_schema).decode()
        page.text(f"The message must be JSON that follows this schema, without a fence: {schema}")
    page.text(CLOSING)
    return page.blocks()


class _Page:
    def __init__(self, images: bool) -> None:
        self._images = images
        self._blocks: list[dict[str, Any]] = []
        self._texts: list[str] = []

    def text(self, text: str) -> None:
        self._texts.append(text)

    def message(self, message: Message) -> None:
        match message:
            case System():
                self._turn("system", message.text)
            case User():
                self._user(message)
            case Assistant():
                self._turn("assistant", _assistant(message))
            case ToolResult():
                about = f" name={quoteattr(message.name)}" + ' failed="yes"' * message.failed
                self._turn("tool", message.text, about)
            case _:
                assert_never(message)

    def blocks(self) -> list[dict[str, Any]]:
        if self._texts:
            self._blocks.append({"type": "text", "text": "\n\n".join(self._texts)})
            self._texts = []
        return self._blocks

    def _turn(self, role: str, text: str, about: str = "") -> None:
        self.text(f'<message role="{role}"{about}>\n{_quoted(text)}\n</message>')

    def _user(self, message: User) -> None:
        if all(isinstance(part, Text) for part in message.parts):
            self._turn("user", message.text)
            return
        self.text('<message role="user">')
        for part in message.parts:
            if isinstance(part, Text):
                self.text(_quoted(part.text))
            else:
                self._image(part)
        self.text("</message>")

    def _image(self, image: Image) -> None:
        data = _DATA_URL.fullmatch(image.url)
        if data is None:
            self.text(f"[image: {_quoted(image.url[:500])}]")
        elif not self._images:
            self.text("[an image that cannot be shown here]")
        else:
            self.blocks().append({"type": "image", "mimeType": data[1], "data": data[2]})


def _assistant(message: Assistant) -> str:
    pieces = [message.text] if message.text else []
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    return "\n\n".join([*pieces, *(written(call.name, call.arguments) for call in calls)])


def _quoted(text: str) -> str:
    """`text` in which nothing looks like the border of a message."""
    return _TAG.sub("&lt;", text)
