"""The tree of commands, options and values that completion scripts are written from."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from hermes.cli import registry
from hermes.cli.commands.setup import NAMES as SETUP_SECTIONS
from hermes.cli.main import Parser
from hermes.config.schema import leaf_keys
from hermes.providers import ENDPOINTS
from hermes.util.extras import EXTRAS

Source = Literal["", "files", "folders", "profiles", "sessions"]

ROOT = "hermes"
LONGEST = 70

FILE_NAMES = ("FILE", "OUT", "PATH", "SCRIPT", "SOURCE", "ZIP")
FOLDER_NAMES = ("DIR", "FOLDER")
SESSION_FIELDS = ("resume", "session", "session_id")
NEW_NAMES = (f"{ROOT} profile create",)
"""Commands whose argument is a new name, which cannot be completed."""


class CompletionValues(msgspec.Struct, frozen=True):
    """Possible values: `words`, or what `source` has when the user presses Tab."""

    words: tuple[str, ...] = ()
    source: Source = ""


class CompletionOption(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    summary: str
    takes_value: bool
    values: CompletionValues = CompletionValues()


class CommandNode(msgspec.Struct, frozen=True):
    """One command, or `hermes` itself."""

    path: str
    """The words of the command, such as `hermes sessions list`."""
    summary: str
    options: tuple[CompletionOption, ...]
    arguments: tuple[CompletionValues, ...]
    repeats: bool
    """Whether the last argument may be repeated."""
    children: tuple["CommandNode", ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition(" ")[2]

    def all(self) -> Iterator["CommandNode"]:
        """Yield this node and all its descendants."""
        yield self
        for child in self.children:
            yield from child.all()


def build_tree(commands: Iterable[registry.CommandEntry] = registry.COMMANDS) -> CommandNode:
    """Build the tree of all commands. Imports every command."""
    children = []
    for command in commands:
        parser = Parser(prog=f"{ROOT} {command.name}")
        command.load().configure(parser)
        children.append(_node(parser, f"{ROOT} {command.name}", command.summary))
    default = [child for child in children if child.name == registry.DEFAULT]
    own = [option for child in default for option in child.options if "--help" not in option.names]
    return CommandNode(ROOT, "", (*_OWN_OPTIONS, *own), (), False, tuple(children))


_OWN_OPTIONS = (
    CompletionOption(
        ("-p", "--profile"), "use this profile's home", True, CompletionValues(source="profiles")
    ),
    CompletionOption(("-V", "--version"), "show the version", False),
    CompletionOption(("-h", "--help"), "show help", False),
)


def _node(parser: argparse.ArgumentParser, path: str, summary: str) -> CommandNode:
    # argparse has no public list of what was added to a parser.
    known = parser._actions  # noqa: SLF001 - see above
    kind = argparse._SubParsersAction  # noqa: SLF001 - the same
    actions = [one for one in known if one.help != argparse.SUPPRESS]
    groups = [one for one in actions if isinstance(one, kind)]
    plain = [one for one in actions if one not in groups]
    named = [one for one in plain if one.option_strings]
    placed = [one for one in plain if not one.option_strings]
    return CommandNode(
        path,
        summary,
        tuple(_option(one, path) for one in named),
        tuple(_values(one, path) for one in placed),
        bool(placed) and placed[-1].nargs in ("*", "+", argparse.REMAINDER),
        tuple(child for group in groups for child in _children(group, path)),
    )


def _children(
    group: "argparse._SubParsersAction[argparse.ArgumentParser]", path: str
) -> Iterator[CommandNode]:
    choices = group._choices_actions  # noqa: SLF001 - argparse shows them nowhere else
    summaries = {choice.dest: choice.help for choice in choices}
    for name, parser in group.choices.items():
        summary = summaries.get(name) or parser.description or ""
        yield _node(parser, f"{path} {name}", shorten(summary))


def _option(action: argparse.Action, path: str) -> CompletionOption:
    takes = action.nargs != 0
    values = _values(action, path) if takes else CompletionValues()
    return CompletionOption(tuple(action.option_strings), _summary(action), takes, values)


def _summary(action: argparse.Action) -> str:
    """Return the help text with its `%(name)s` placeholders filled in."""
    return shorten((action.help or "") % {**vars(action), "prog": ROOT})


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _values(action: argparse.Action, path: str) -> CompletionValues:
    if action.choices:
        return CompletionValues(tuple(str(choice) for choice in action.choices))
    if not action.option_strings and path in NEW_NAMES:
        return CompletionValues()
    return next((values() for fits, values in _KINDS if fits(action, path)), CompletionValues())


_KINDS: tuple[
    tuple[Callable[[argparse.Action, str], bool], Callable[[], CompletionValues]], ...
] = (
    (
        lambda action, path: action.dest == "section" and path == f"{ROOT} setup",
        lambda: CompletionValues((*SETUP_SECTIONS, *EXTRAS)),
    ),
    (lambda action, _: action.metavar == "PROFILE", lambda: CompletionValues(source="profiles")),
    (lambda action, _: action.dest in SESSION_FIELDS, lambda: CompletionValues(source="sessions")),
    (
        lambda action, _: action.metavar == "PROVIDER" or action.dest == "provider",
        lambda: CompletionValues(tuple(endpoint.id for endpoint in ENDPOINTS)),
    ),
    (
        lambda action, path: action.dest == "key" and path.startswith(f"{ROOT} config "),
        lambda: CompletionValues(tuple(key for key in leaf_keys() if "<" not in key)),
    ),
    (
        lambda action, _: action.metavar in FOLDER_NAMES or action.dest == "folder",
        lambda: CompletionValues(source="folders"),
    ),
    (
        lambda action, _: action.type is Path or action.metavar in FILE_NAMES,
        lambda: CompletionValues(source="files"),
    ),
)
"""Completion values by kind of argument; the first match counts."""
