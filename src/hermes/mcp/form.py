"""The fields a server wants filled in, as questions a person can answer in words."""

import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec

from hermes.mcp.lines import one_line

SKIP = "skip"
YES, NO = "yes", "no"
MOST_FIELDS, MOST_CHOICES = 20, 12
WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_BETWEEN = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRET = re.compile(
    r"\b(pass(word|wd|phrase|code)|secret|token|credentials?|(api|access|private|secret) ?key)s?\b"
)
PRIMITIVE = ("string", "number", "integer", "boolean", "array")


class FormInvalid(Exception):
    """The schema is not one of flat, simple fields; the text says what is wrong."""


class AnswerInvalid(Exception):
    """What the person said does not fit; the text says why."""


class Option(msgspec.Struct, frozen=True):
    value: Any
    title: str


class Field(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    required: bool
    options: tuple[Option, ...] = ()

    @property
    def kind(self) -> str:
        return str(self.schema.get("type"))

    @property
    def question(self) -> str:
        """`Age (a whole number): how old you are`."""
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
            found = [option.title for option in self.options[:MOST_CHOICES]]
        return (*found, *(() if self.required else (SKIP,)))

    def skipped(self) -> dict[str, Any]:
        """What stands in the form when the person says nothing to it."""
        return {self.name: self.schema["default"]} if "default" in self.schema else {}

    def read(self, answer: str) -> Any:
        """Raises `AnswerInvalid`."""
        try:
            value = _READERS[self.kind](self, answer.strip())
        except ValueError as error:
            raise AnswerInvalid(f"that is not {_KINDS.get(self.kind, 'an answer')}") from error
        problem = next(iter(_validator(self.schema).iter_errors(value)), None)
        if problem is not None:
            raise AnswerInvalid(problem.message)
        return value


def fields(schema: Any) -> list[Field]:
    """The fields of the form. Raises `FormInvalid`."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise FormInvalid("it is no form")
    if len(properties) > MOST_FIELDS:
        raise FormInvalid(f"it has more than {MOST_FIELDS} fields")
    required = schema.get("required", [])
    names = required if isinstance(required, list) else []
    return [_field(name, each, name in names) for name, each in properties.items()]


def _field(name: str, schema: Any, required: bool) -> Field:
    if not isinstance(schema, dict) or schema.get("type") not in PRIMITIVE or "$ref" in schema:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    words = _BETWEEN.sub(" ", f"{name} {schema.get('title', '')}").lower()
    if schema.get("format") == "password" or _SECRET.search(words):
        raise FormInvalid(f"it asks for a secret ({name[:50]})")
    items = schema.get("items") if schema["type"] == "array" else schema
    options = _options(items) if isinstance(items, dict) else ()
    if schema["type"] == "array" and not options:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    try:
        _validator(schema)
    except ValueError as error:
        raise FormInvalid(f"the field {name[:50]!r} makes no sense") from error
    return Field(name, schema, required, options)


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """What a schema points to elsewhere is not fetched."""
    return jsonschema_rs.validator_for(schema, offline=True)


def _options(schema: dict[str, Any]) -> tuple[Option, ...]:
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        each = [option for option in titled if isinstance(option, dict) and "const" in option]
        return tuple(_option(one["const"], one.get("title") or one["const"]) for one in each)
    values = schema.get("enum")
    if not isinstance(values, list):
        return ()
    names = schema.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(_option(value, title) for value, title in zip(values, titles, strict=True))


def _option(value: Any, title: Any) -> Option:
    return Option(value, one_line(str(title), 100))


def _chosen(field: Field, answer: str) -> Any:
    for option in field.options:
        if answer.lower() in (str(option.value).lower(), option.title.lower()):
            return option.value
    raise AnswerInvalid(f"choose one of: {', '.join(each.title for each in field.options)}")


def _string(field: Field, answer: str) -> Any:
    return _chosen(field, answer) if field.options else answer


def _several(field: Field, answer: str) -> Any:
    return [_chosen(field, part.strip()) for part in answer.split(",") if part.strip()]


def _boolean(_field: Field, answer: str) -> Any:
    if answer.lower() not in WORDS:
        raise AnswerInvalid("answer yes or no")
    return WORDS[answer.lower()]


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "several, separated by commas",
}
_READERS: dict[str, Callable[[Field, str], Any]] = {
    "string": _string,
    "integer": lambda _field, answer: int(answer),
    "number": lambda _field, answer: float(answer),
    "boolean": _boolean,
    "array": _several,
}
