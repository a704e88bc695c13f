"""Questions of a server to the user. Without a user, or for a secret, they are declined."""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec

from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext
from hermes.mcp.caller import CallTicket
from hermes.mcp.transport import one_line

# The fields of a form as questions that a user answers in words.

SKIP = "skip"
YES, NO = "yes", "no"
MAX_FIELDS, MAX_CHOICES = 20, 12
BOOLEAN_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_BETWEEN = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRET = re.compile(
    r"\b(pass(word|wd|phrase|code)|secret|token|credentials?|(api|access|private|secret) ?key)s?\b"
)
PRIMITIVE = ("string", "number", "integer", "boolean", "array")


class FormInvalid(Exception):
    """The schema is not a list of simple fields; the text says why."""


class AnswerInvalid(Exception):
    """The answer does not match the field; the text says why."""


class FormOption(msgspec.Struct, frozen=True):
    value: Any
    title: str


class FormField(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    required: bool
    options: tuple[FormOption, ...] = ()

    @property
    def kind(self) -> str:
        return str(self.schema.get("type"))

    @property
    def question(self) -> str:
        """For example `Age (a whole number): how old you are`."""
        title = one_line(str(self.schema.get("title") or self.name), 100)
        description = one_line(str(self.schema.get("description") or ""), 500)
        extra = _KINDS.get(self.kind, "")
        if "default" in self.schema:
            extra = one_line(f"{extra}; {SKIP} means {self.schema['default']}".strip("; "), 200)
        text = f"{title} ({extra})" if extra else title
        return f"{text}: {description}" if description else text

    @property
    def choices(self) -> tuple[str, ...]:
        found = [YES, NO] if self.kind == "boolean" else []
        if self.kind == "string":
            found = [option.title for option in self.options[:MAX_CHOICES]]
        return (*found, *(() if self.required else (SKIP,)))

    def skipped(self) -> dict[str, Any]:
        """Return the default of a skipped field."""
        return {self.name: self.schema["default"]} if "default" in self.schema else {}

    def read(self, answer: str) -> Any:
        """Return the value of an answer. Raises `AnswerInvalid`."""
        try:
            value = _READERS[self.kind](self, answer.strip())
        except ValueError as error:
            raise AnswerInvalid(f"that is not {_KINDS.get(self.kind, 'an answer')}") from error
        problem = next(iter(_validator(self.schema).iter_errors(value)), None)
        if problem is not None:
            raise AnswerInvalid(problem.message)
        return value


def parse_form(schema: Any) -> list[FormField]:
    """Return the fields of a form. Raises `FormInvalid`."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise FormInvalid("it is not a form")
    if len(properties) > MAX_FIELDS:
        raise FormInvalid(f"it has more than {MAX_FIELDS} fields")
    required = schema.get("required", [])
    names = required if isinstance(required, list) else []
    return [_parse_field(name, each, name in names) for name, each in properties.items()]


def _parse_field(name: str, schema: Any, required: bool) -> FormField:
    if not isinstance(schema, dict) or schema.get("type") not in PRIMITIVE or "$ref" in schema:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    words = _BETWEEN.sub(" ", f"{name} {schema.get('title', '')}").lower()
    if schema.get("format") == "password" or _SECRET.search(words):
        raise FormInvalid(f"it asks for a secret ({name[:50]})")
    items = schema.get("items") if schema["type"] == "array" else schema
    options = _parse_options(items) if isinstance(items, dict) else ()
    if schema["type"] == "array" and not options:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    try:
        _validator(schema)
    except ValueError as error:
        raise FormInvalid(f"the field {name[:50]!r} makes no sense") from error
    return FormField(name, schema, required, options)


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator that does not fetch external references."""
    return jsonschema_rs.validator_for(schema, offline=True)


def _parse_options(schema: dict[str, Any]) -> tuple[FormOption, ...]:
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        each = [option for option in titled if isinstance(option, dict) and "const" in option]
        values = [one["const"] for one in each]
        titles = [one.get("title") or one["const"] for one in each]
    else:
        listed, names = schema.get("enum"), schema.get("enumNames")
        values = listed if isinstance(listed, list) else []
        titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(
        FormOption(value, one_line(str(title), 100))
        for value, title in zip(values, titles, strict=True)
    )


def _read_choice(field: FormField, answer: str) -> Any:
    for option in field.options:
        if answer.lower() in (str(option.value).lower(), option.title.lower()):
            return option.value
    raise AnswerInvalid(f"choose one of: {', '.join(each.title for each in field.options)}")


def _read_boolean(_field: FormField, answer: str) -> Any:
    if answer.lower() not in BOOLEAN_WORDS:
        raise AnswerInvalid("answer yes or no")
    return BOOLEAN_WORDS[answer.lower()]


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "several, separated by commas",
}
_READERS: dict[str, Callable[[FormField, str], Any]] = {
    "string": lambda field, answer: _read_choice(field, answer) if field.options else answer,
    "integer": lambda _field, answer: int(answer),
    "number": lambda _field, answer: float(answer),
    "boolean": _read_boolean,
    "array": lambda field, answer: [
        _read_choice(field, part.strip()) for part in answer.split(",") if part.strip()
    ],
}


DECLINE = "decline"
MAX_TRIES = 3
MESSAGE_CHARS, URL_CHARS = 1_000, 2_000
DECLINED: dict[str, Any] = {"action": "decline"}
CANCELLED: dict[str, Any] = {"action": "cancel"}

log = logging.getLogger(__name__)


class ElicitationRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `elicitation/create`."""

    message: str = ""
    mode: str = "form"
    requested_schema: Any = None
    url: str = ""


class _Declined(Exception):
    """The user declined."""


class _Unanswered(Exception):
    """The user did not answer, or not with a valid value."""


class Elicitation:
    """Answers `elicitation/create` of one server. `timeout` is `clarify.timeout`, per question."""

    def __init__(self, server: str, timeout: float) -> None:
        self._server, self._timeout = server, timeout

    def capabilities(self) -> dict[str, Any]:
        return {"elicitation": {"form": {}}}

    async def answer(self, params: dict[str, Any], ticket: CallTicket | None) -> dict[str, Any]:
        if ticket is None:
            log.info("%s has a question, but its user is not known", self._server)
            return DECLINED
        request = msgspec.convert(params, ElicitationRequest)
        if request.mode != "form":
            show_url(ticket.call, self._server, request.message, request.url)
            return DECLINED
        clarifier = ticket.caller.clarifier
        if clarifier is None:
            return DECLINED
        try:
            asked = parse_form(request.requested_schema or {})
        except FormInvalid as error:
            ticket.call.output(f"{self._server} asked a question that was declined: {error}\n")
            return DECLINED
        with ticket.paused():
            async with ticket.caller.asking:
                user = _Questioner(clarifier, ticket.call, self._timeout)
                return await self._fill(user, request.message, asked)

    async def _fill(
        self, user: "_Questioner", message: str, asked: list[FormField]
    ) -> dict[str, Any]:
        why = one_line(message, MESSAGE_CHARS)
        head = f"The MCP server {self._server} asks: {why}"
        content: dict[str, Any] = {}
        try:
            if not asked and await user.ask(head, (YES, NO)) != YES:
                return DECLINED
            for field in asked:
                content |= await user.fill(head, field)
                head = f"The MCP server {self._server} also asks"
        except _Declined:
            return DECLINED
        except _Unanswered:
            return CANCELLED
        return {"action": "accept", "content": content}


class _Questioner:
    """Asks the user of one call."""

    def __init__(self, clarifier: Clarifier, call: ToolContext, timeout: float) -> None:
        self._clarifier, self._call, self._timeout = clarifier, call, timeout

    async def fill(self, head: str, field: FormField) -> dict[str, Any]:
        problem = ""
        for _ in range(MAX_TRIES):
            text = "\n".join(part for part in (head, field.question, problem) if part)
            answer = await self.ask(text, field.choices)
            if answer.lower() == SKIP and not field.required:
                return field.skipped()
            try:
                return {field.name: field.read(answer)}
            except AnswerInvalid as error:
                problem = str(error)
        raise _Unanswered

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """Ask one question and return the answer. The question is always closed."""
        asked = QuestionAsked(self._call.call_id, text, (*choices, DECLINE))
        answer = ""
        self._call.announce(asked)
        try:
            async with asyncio.timeout(self._timeout or None):
                answer = (await self._clarifier.clarify(asked)).strip()
        except TimeoutError:
            raise _Unanswered from None
        finally:
            self._call.announce(QuestionAnswered(asked.call_id, answer))
        if not answer:
            raise _Unanswered
        if answer.lower() == DECLINE:
            raise _Declined
        return answer


def show_url(call: ToolContext, server: str, message: str, url: str) -> None:
    """Show the address of a page that the server wants the user to open; it is not opened."""
    why = one_line(message, MESSAGE_CHARS)
    call.output(f"{server} wants you to open {one_line(url, URL_CHARS)} ({why})\n")
