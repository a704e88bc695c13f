"""Load a skill: render its instructions for the model and check its setup."""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from hermes.config.environment import child_environment
from hermes.config.home import tilde
from hermes.core.ports import AskSecret
from hermes.security import OWN_FILES
from hermes.security.injection import blocked, scan
from hermes.skills.index import SkillIndex
from hermes.skills.parse import (
    decode,
    is_garbled,
    is_inside,
    read_frontmatter,
    read_instructions,
    strip_comments,
)
from hermes.skills.skill import (
    LINKED_FOLDERS,
    OTHER_SKILL_DIRECTORY,
    SKILL_DIRECTORY,
    SKILL_FILE,
    THIRD_PARTY,
    CredentialFile,
    Skill,
    SkillEntry,
    SkillInvalid,
    SkillNotFound,
    SkillUsage,
    SkillVariable,
    VisibilityContext,
    hidden_reason,
    is_command,
    normalize_name,
    settings_block,
    unset_settings,
    unusable_reason,
)
from hermes.util.concurrency import in_thread
from hermes.util.processes import run_program
from hermes.util.text import human_size

# Linked files: the files of a skill other than SKILL.md. None may be outside its folder.

MAX_LISTED_FILES = 60  #: Files that are listed when a skill is loaded.
MAX_LINKED_DEPTH = 3
MAX_LINKED_BYTES = 500_000  #: Size limit of a linked file.


def linked_files(folder: Path) -> tuple[str, ...]:
    """Return the files of a skill folder as relative paths, the usual folders first."""
    found = [
        path.relative_to(folder).as_posix()
        for path in _walk_files(folder, MAX_LINKED_DEPTH)
        if is_inside(path, folder)
    ]
    found = [name for name in found if name != SKILL_FILE and name.isprintable()]

    def order(name: str) -> tuple[int, str]:
        folder, slash, _ = name.partition("/")
        known = folder in LINKED_FOLDERS and slash
        return LINKED_FOLDERS.index(folder) if known else len(LINKED_FOLDERS), name

    return tuple(sorted(found, key=order))


def format_listing(names: tuple[str, ...]) -> str:
    """Return the files by folder, one folder a line, or "" when there are none."""
    by_folder: dict[str, list[str]] = {}
    for name in names[:MAX_LISTED_FILES]:
        folder, slash, rest = name.partition("/")
        by_folder.setdefault(folder if slash else "", []).append(rest if slash else name)
    lines = [
        f"{folder}/: {', '.join(files)}" if folder else ", ".join(files)
        for folder, files in by_folder.items()
    ]
    if len(names) > MAX_LISTED_FILES:
        lines.append(f"and {len(names) - MAX_LISTED_FILES:,} more")
    return "\n".join(lines)


def read_linked(skill: Skill, name: str) -> str:
    """Return the text of one linked file. Raises `SkillNotFound` and `SkillInvalid`."""
    path = skill.folder / name.strip()
    if (
        name.startswith(("/", "~", "\\"))
        or ".." in Path(name).parts
        or not is_inside(path, skill.folder)
    ):
        raise SkillInvalid(
            f"{name} lies outside the folder of the skill {skill.name!r}",
            hint="only files of the skill itself can be read this way",
        )
    try:
        if not path.is_file():
            names = format_listing(linked_files(skill.folder))
            raise SkillNotFound(
                f"the skill {skill.name!r} has no file {name}",
                hint=f"it has:\n{names}" if names else "it has no further files",
            )
        size = path.stat().st_size
        if size > MAX_LINKED_BYTES:
            raise SkillInvalid(
                f"{path} is too large to show: {human_size(size)}, and the limit is "
                f"{human_size(MAX_LINKED_BYTES)}",
                hint="look at a part of it, with read_file or a command such as head",
            )
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SkillInvalid(f"{name} cannot be read: {reason}") from error
    try:
        text: str | None = decode(data)[0]
    except SkillInvalid:
        text = None
    if text is None or is_garbled(text):
        return f"[{path} holds no text: {human_size(len(data))}]"
    return text


def _walk_files(folder: Path, depth: int) -> list[Path]:
    """Return the files below a folder, without hidden files and caches."""
    try:
        with os.scandir(folder) as entries:
            inside = sorted((each.name, each.is_dir()) for each in entries)
    except OSError:
        return []
    found: list[Path] = []
    for name, is_folder in inside:
        if name.startswith(".") or name == "__pycache__":
            continue
        if not is_folder:
            found.append(folder / name)
        elif depth > 1:
            found += _walk_files(folder / name, depth - 1)
    return found


# Setup: variables and credential files that a skill needs. Values never pass through here: a
# `AskSecret` asks the user, and programs get variables by name.

VariableLookup = Callable[[str], str | None]
"""Returns the value of a variable from the environment or .env, or None."""


class SetupStatus(NamedTuple):
    """The result of a setup check."""

    reasons: tuple[str, ...]  #: What is missing and how to set it up, one line each.
    variables: tuple[str, ...]  #: Names of the variables that are set.
    files: tuple[Path, ...]  #: Credential files that exist.


class SetupChecker:
    """Checks the setup of skills for one session. A value the user declines is asked for once."""

    def __init__(self, home: Path, variables: VariableLookup, asker: AskSecret | None) -> None:
        self._home, self._variables, self._asker = home, variables, asker
        self._skipped: set[str] = set()

    async def check(self, skill: Skill) -> SetupStatus:
        given: list[str] = []
        there: list[Path] = []
        reasons: list[str] = []
        for variable in skill.variables:
            if await self._is_set(variable):
                given.append(variable.name)
                continue
            purpose = f" (needed for {variable.required_for})" if variable.required_for else ""
            about = f" {variable.help}" if variable.help else ""
            reasons.append(
                f"{variable.name} is not set{purpose}.{about} "
                f"The user sets it with: hermes config set {variable.name} VALUE"
            )
        for each in skill.credential_files:
            path = self._resolve_credential(each)
            if path is None:
                reasons.append(f"the credential file {each.path} is not one that skills may use")
                continue
            try:
                is_file = path.is_file()
            except OSError:  # a name that is too long, an unreadable folder
                is_file = False
            if is_file:
                there.append(path)
            else:
                about = f" ({each.description})" if each.description else ""
                reasons.append(f"the credential file {path} is missing{about}")
        return SetupStatus(tuple(reasons), tuple(given), tuple(there))

    async def _is_set(self, variable: SkillVariable) -> bool:
        name = variable.name
        if self._variables(name):
            return True
        if self._asker is None or name in self._skipped:
            return False
        prompt = variable.prompt or f"Value of {name}"
        if await self._asker(name, prompt, variable.help):
            return True
        self._skipped.add(name)
        return False

    def _resolve_credential(self, credential: CredentialFile) -> Path | None:
        """Return the path, or None when it is outside the home or one of our own files."""
        home = self._home.resolve()
        path = (self._home / credential.path).resolve()
        if not path.is_relative_to(home) or path == home:
            return None
        inside = path.relative_to(home).as_posix()
        own = any(inside == name or inside.startswith(f"{name}/") for name in OWN_FILES)
        return None if own else path


SESSION_VARIABLE = "${HERMES_SESSION_ID}"
OTHER_VARIABLES = {
    OTHER_SKILL_DIRECTORY: SKILL_DIRECTORY,
    "${CLAUDE_SESSION_ID}": SESSION_VARIABLE,
}
"""Names of the same variables in skills for Claude Code."""
LINKED_TITLE = "Linked files, read with skill_view({!r}, file_path):"


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for loading skills; see `SkillSettings` for those of `skills.*`."""

    home: Path  #: The home folder, which contains credential files and config.yaml.
    context: VisibilityContext  #: Disabled skills and the current platform.
    config: Mapping[str, Any] = {}  #: `skills.config`.
    template_vars: bool = True
    inline_shell: bool = False
    inline_shell_timeout: float = 10.0


class LoadedSkill(msgspec.Struct, frozen=True):
    """A skill rendered for the model."""

    skill: Skill
    text: str  #: The complete text for the model.
    setup_needed: tuple[str, ...] = ()  #: What is missing before the skill works.
    linked: tuple[str, ...] = ()  #: Relative paths of its linked files.
    has_arguments: bool = False  #: Whether the text contains the arguments of the command.
    blocked: bool = False  #: True when the text is withheld because it looks like prompt injection.


class SkillEnvironment(Protocol):
    """Makes what a skill needs available where the session works."""

    def directory(self, skill: Skill) -> str:
        """Return the folder of a skill as commands of the session see it."""
        ...

    def provide(self, skill: Skill, variables: Sequence[str], files: Sequence[Path]) -> None:
        """Make variables, by name, and credential files available to programs of the session."""
        ...


class SkillLoader:
    """Loads skills for one session.

    `variables` looks up the environment and .env. `asker` asks the user, if one is present.
    """

    def __init__(
        self,
        skills: SkillIndex,
        options: LoadOptions,
        *,
        variables: VariableLookup,
        session_id: Callable[[], str] = str,
        asker: AskSecret | None = None,
        environment: SkillEnvironment | None = None,
        usage: SkillUsage | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.skills, self.options = skills, options
        self._setup = SetupChecker(options.home, variables, asker)
        self._session_id, self._environment = session_id, environment
        self._usage, self._now = usage, now
        self._called: set[str] = set()  #: Skills that the user called.

    async def load(
        self,
        name: str,
        file_path: str = "",
        *,
        arguments: str | None = None,
        by_model: bool = False,
    ) -> LoadedSkill:
        """Return the rendered instructions, or with `file_path` a linked file unchanged.

        `arguments` is what the user typed after a command. With `by_model` a skill that only the
        user calls is refused; its linked files can be read once the user has called it.

        Raises `SkillNotFound` and `SkillInvalid`.
        """
        skill = await in_thread(self.skills.get, name)
        if not by_model:
            self._called.add(skill.name)
        elif skill.is_user_only and not (file_path.strip() and skill.name in self._called):
            raise SkillNotFound(
                f"only the user can call the skill {skill.name!r}",
                hint=f"if it is needed, ask the user to enter /{command_name(skill.name)}",
            )
        reason = unusable_reason(skill, self.options.context)
        if reason:
            raise SkillNotFound(
                f"the skill {skill.name!r} cannot be used here: {reason}",
                hint="`hermes skills list` shows what there is",
            )
        if file_path.strip():
            text = await in_thread(read_linked, skill, file_path.strip())
            return self._blocked_result(skill, file_path.strip(), text) or LoadedSkill(skill, text)
        text = await in_thread(read_instructions, skill)
        refused = self._blocked_result(skill, SKILL_FILE, text)
        if refused is not None:
            return refused
        body = strip_comments(read_frontmatter(text).body)
        loaded = await self._render(skill, body, arguments)
        if self._usage is not None:
            await in_thread(self._usage.record, skill.name, self._now())
        return loaded

    def _blocked_result(self, skill: Skill, file: str, text: str) -> LoadedSkill | None:
        """Return a notice instead of a third-party text that looks like injection, else None."""
        findings = scan(text) if skill.source in THIRD_PARTY else ()
        if not findings:
            return None
        return LoadedSkill(skill, blocked(f"{skill.name}/{file}", findings), blocked=True)

    async def _render(self, skill: Skill, body: str, arguments: str | None) -> LoadedSkill:
        options = self.options
        needs = await self._setup.check(skill)
        if self._environment is not None and (needs.variables or needs.files):
            self._environment.provide(skill, needs.variables, needs.files)
        reasons = (
            *needs.reasons,
            *(
                f"{each.prompt}: not set. The user sets it with: "
                f"hermes config set skills.config.{each.key} VALUE"
                for each in unset_settings(skill, options.config)
            ),
        )
        # Without an environment the session works where the skills are.
        inside = self._environment
        directory = inside.directory(skill) if inside is not None else str(skill.folder)
        if options.template_vars:
            for theirs, ours in OTHER_VARIABLES.items():
                body = body.replace(theirs, ours)
            body = body.replace(SKILL_DIRECTORY, directory or SKILL_DIRECTORY)
            body = body.replace(SESSION_VARIABLE, self._session_id() or SESSION_VARIABLE)
        placeholders = None
        if skill.argument_hint or skill.argument_names or "$ARGUMENTS" in body:
            placeholders = Placeholders.of(body, skill.argument_names)
        typed, is_filled = arguments or "", placeholders is not None and arguments is not None

        def fill(text: str) -> str:
            return placeholders.fill(text, typed) if placeholders and is_filled else text

        if options.inline_shell:
            environment = await in_thread(child_environment, needs.variables)
            place = SnippetShell(
                skill.folder,
                {**environment, "ARGUMENTS": typed},
                options.inline_shell_timeout,
                placeholders.parameters(typed) if placeholders else (),
            )
            body = await run_snippets(body, place, fill)
        else:
            body = fill(body)
        linked = await in_thread(linked_files, skill.folder)
        parts = (
            f"# Skill: {skill.name}",
            body.strip() or "(It has no instructions.)",
            ARGUMENTS_NOTE if placeholders and arguments is None else "",
            FORK_NOTE if skill.is_forked else "",
            f"[Skill directory: {directory}]",
            settings_block(skill, options.config, tilde(options.home / "config.yaml")),
            "\n".join(["[Setup needed:", *reasons, "]"]) if reasons else "",
            f"{LINKED_TITLE.format(skill.name)}\n{format_listing(linked)}" if linked else "",
        )
        text = "\n\n".join(filter(None, parts))
        return LoadedSkill(skill, text, reasons, linked, has_arguments=is_filled)


# Arguments

ARGUMENTS_NOTE = "[$ARGUMENTS, $1 and the like stand for what the user asked for.]"
FORK_NOTE = (
    "[Let a subagent do this: pass the instructions above on with delegate_task and report its "
    "result. Without that tool, follow them yourself.]"
)


def split_arguments(arguments: str) -> list[str]:
    """Return the words of the arguments; quotes keep words together."""
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe
        return arguments.split()


class Placeholders(NamedTuple):
    """The placeholders of a text: `$ARGUMENTS`, `$ARGUMENTS[0]`, `$1` and the names of arguments.

    `$1` is the first word; in a text with `$0`, which is the first word then, it is the second.
    """

    pattern: re.Pattern[str]
    names: tuple[str, ...]
    first: int  #: The number of the first word.

    @classmethod
    def of(cls, text: str, names: Sequence[str] = ()) -> "Placeholders | None":
        """Return the placeholders of a text, or None if it has none."""
        named = "".join(f"|{re.escape(name)}" for name in names)
        pattern = re.compile(rf"\$(?:ARGUMENTS\[(\d+)\]|(ARGUMENTS|\d{named})(?!\w))")
        first = 0 if re.search(r"\$0(?!\w)", text) else 1
        return cls(pattern, tuple(names), first) if pattern.search(text) else None

    def fill(self, text: str, arguments: str) -> str:
        """Replace the placeholders in a text by what the user typed."""
        words = split_arguments(arguments)

        def value(found: re.Match[str]) -> str:
            index, word = found[1], found[2]
            if word == "ARGUMENTS":
                return arguments
            if word in self.names:
                position = self.names.index(word)
            else:
                position = int(index) if index else int(word) - self.first
            return words[position] if 0 <= position < len(words) else ""

        return self.pattern.sub(value, text)

    def parameters(self, arguments: str) -> tuple[str, ...]:
        """Return the words as parameters of a shell, beginning with `$0`."""
        return (*(("skill",) if self.first else ()), *split_arguments(arguments))


# Slash commands and preloaded skills


class SkillCommand(NamedTuple):
    """A slash command `/name rest` as typed by the user."""

    skill: str
    rest: str


def command_name(name: str) -> str:
    """Return the command of a skill without the slash: lower case, with hyphens."""
    plugin, colon, last = name.rpartition(":")
    return f"{normalize_name(plugin)}{colon}{normalize_name(last)}"


def skill_commands(skills: Iterable[SkillEntry], context: VisibilityContext) -> Mapping[str, str]:
    """Return the descriptions of the skills by command name, after the hint for arguments."""
    return {
        command_name(skill.name): f"{skill.argument_hint} {skill.description}".lstrip()
        for skill in skills
        if is_command(skill, context)
    }


def skill_command(
    text: str, skills: Iterable[SkillEntry], context: VisibilityContext
) -> SkillCommand | None:
    """Return the skill that `/name …` calls, or None."""
    line = text.strip()
    if not line.startswith("/") or not line[1:2].strip():
        return None
    typed, *rest = line[1:].split(maxsplit=1)
    wanted = command_name(typed)
    for skill in skills:
        if wanted and command_name(skill.name) == wanted and is_command(skill, context):
            return SkillCommand(skill.name, "".join(rest))
    return None


def hidden_command_reason(text: str, skills: SkillIndex, context: VisibilityContext) -> str:
    """Return why `/name …` does not call the skill of that name, or "" if there is none."""
    wanted = command_name(text.split(maxsplit=1)[0].removeprefix("/"))
    for skill in skills.entries():
        if command_name(skill.name) != wanted:
            continue
        if reason := hidden_reason(skill, context):
            return f"The skill `{skill.name}` is hidden here: {reason}."
        if skill.is_model_only:
            return f"The skill `{skill.name}` is only for the agent (`user-invocable: false`)."
    for broken in skills.broken():
        if normalize_name(broken.folder.name) == wanted:
            return f"The skill `{broken.folder.name}` does not load: {broken.reason}."
    return ""


async def command_message(loader: SkillLoader, command: SkillCommand) -> tuple[LoadedSkill, str]:
    """Return the loaded skill and the user message for a command.

    Raises `SkillNotFound` and `SkillInvalid`.
    """
    loaded = await loader.load(command.skill, arguments=command.rest)
    asked = command.rest or "Follow the skill for what we are working on."
    if loaded.has_arguments and command.rest:
        asked = ""
    opening = f"[The user called the skill {command.skill!r}: follow it.]"
    return loaded, "\n\n".join(filter(None, (opening, loaded.text, asked)))


async def preload_skills(
    loader: SkillLoader, names: Iterable[str]
) -> tuple[list[LoadedSkill], str]:
    """Return the skills of `-s name` and the text before the first user message."""
    loaded: dict[str, LoadedSkill] = {}
    for name in names:
        if name.strip():
            each = await loader.load(name)
            loaded.setdefault(each.skill.name, each)
    if not loaded:
        return [], ""
    opening = "[The user chose these skills for this session: follow them where they apply.]"
    texts = [each.text for each in loaded.values()]
    return list(loaded.values()), "\n\n".join([opening, *texts])


# Inline shell: !`command` in a SKILL.md is replaced by the output of the command. It runs on this
# machine without approval, and therefore only when `skills.inline_shell` is on.

MAX_SNIPPET_OUTPUT = 4_000  #: Characters of the output of one snippet.
MAX_SNIPPETS = 20  #: Snippets in one text; they run one after another.
MAX_SNIPPET_BYTES = 1_000_000  #: Bytes after which a snippet is killed.

BASH = "/bin/bash"

_SNIPPET = re.compile(r"(?<![\w!`\\])!`([^`\n]+)`")


class SnippetShell(msgspec.Struct, frozen=True):
    """Where and how snippets run."""

    folder: Path
    environment: Mapping[str, str]
    timeout: float  #: Seconds for one snippet.
    parameters: tuple[str, ...] = ()
    """`$0`, `$1` and so on. What the user typed is never part of a command, which would run it."""


async def run_snippets(
    text: str, shell: SnippetShell, fill: Callable[[str], str] = lambda between: between
) -> str:
    """Return `text` with each snippet replaced by its output or by an error.

    `fill` is applied to the text between snippets. What it adds is not run.
    """
    parts: list[str] = []
    end = 0
    for number, snippet in enumerate(_SNIPPET.finditer(text)):
        if number < MAX_SNIPPETS:
            output = await _run_snippet(snippet[1], shell)
        else:
            output = _snippet_error(f"a text may have {MAX_SNIPPETS} snippets")
        parts += [fill(text[end : snippet.start()]), output]
        end = snippet.end()
    return "".join([*parts, fill(text[end:])])


async def _run_snippet(command: str, shell: SnippetShell) -> str:
    program = BASH if Path(BASH).exists() else "/bin/sh"
    try:
        code, output, errors = await run_program(
            program, "-c", command, *shell.parameters, seconds=shell.timeout,
            most=MAX_SNIPPET_BYTES, cwd=shell.folder, env=dict(shell.environment),
        )  # fmt: skip
    except TimeoutError:
        return _snippet_error(f"no result after {shell.timeout:g} s")
    except (OSError, ValueError) as error:
        return _snippet_error(str(error))
    text = output.decode("utf-8", "replace").strip()
    if code:  # None when it was stopped for printing too much
        return _snippet_error(
            ": ".join(filter(None, [f"exit code {code}", errors.strip() or text]))
        )
    return text if len(text) <= MAX_SNIPPET_OUTPUT else f"{text[: MAX_SNIPPET_OUTPUT - 1]}…"


def _snippet_error(reason: str) -> str:
    return f"[inline-shell error: {reason}]"[:MAX_SNIPPET_OUTPUT]
