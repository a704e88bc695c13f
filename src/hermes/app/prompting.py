"""From settings to the system prompt of a session, and the fixed part of its requests."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from hermes.app.extensions import known_tools
from hermes.app.providers import stored_secrets
from hermes.app.sessions import SessionRequest
from hermes.app.skills import SkillCatalog, visibility_context
from hermes.app.tools import find_toolsets, open_notes, unbound_tool_deps
from hermes.app.workspace import SessionWorkspace, make_workspace
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, UsageError
from hermes.core.messages import Message, User, from_dict
from hermes.core.model import ToolSpec
from hermes.memory import BuiltinMemory
from hermes.prompt import (
    SKILL_TOOLS,
    LocalFileTree,
    NudgeOptions,
    Prompt,
    PromptInputs,
    assemble,
    host_environment,
    nudge,
)
from hermes.security import Redactor
from hermes.skills import VisibilityContext
from hermes.tools import schema_chars
from hermes.util.concurrency import SystemClock

NO_SESSION = "20260101_000000_abcdef01"  #: The session id in a preview.
UNDECIDED = "found when a session starts"  #: The model in a preview if `auto` chooses it later.
CHARS_PER_TOKEN = 4

log = logging.getLogger(__name__)


class PromptPreview(msgspec.Struct, frozen=True):
    """The system prompt of a session and the size of its tool schemas."""

    prompt: Prompt
    tool_chars: int


class ToolSize(msgspec.Struct, frozen=True):
    name: str
    chars: int
    spec: ToolSpec


class RequestSize(msgspec.Struct, frozen=True):
    """The size in characters of what every request contains besides the conversation."""

    tools: tuple[ToolSize, ...]
    system_prompt: int
    total: int
    tokens: int  #: Estimated.


def build_prompt(
    start: PromptInputs,
    skills: SkillCatalog,
    context: VisibilityContext,
    request: SessionRequest,
    place: SessionWorkspace,
    notes: BuiltinMemory | None,
) -> Prompt:
    """Build the system prompt from `start`, which has what only the caller knows. `context` has
    the tools, and decides which skills are listed."""
    agent = skills.settings.agent
    written = None if notes is None else notes.snapshot()
    folder = Path(place.folder) if place.here else None
    return assemble(
        msgspec.structs.replace(
            start,
            tools=context.tools,
            platform=request.source,
            working_folder="" if request.is_rollout else place.folder,
            place=place.workplace.name,
            place_description=place.description,
            tree=LocalFileTree(place.folder if request.user_id else "") if place.here else None,
            skip_context_files=request.skip_context_files,
            enforcement=agent.tool_use_enforcement,
            system_message="\n\n".join(filter(None, (agent.system_prompt, request.system_message))),
            memory=written.memory if written else "",
            user_profile=written.user if written else "",
            skills_index=skills.index(context, folder) if context.tools & SKILL_TOOLS else "",
            environment=host_environment(),
        )
    )


def preview_prompt(loaded: Loaded, home: Home, folder: Path, platform: str) -> PromptPreview:
    """Return the prompt of a session that would start in `folder` now."""
    request = SessionRequest(folder, source=platform)
    place = make_workspace(loaded, home, folder, log.info)
    found = find_toolsets(loaded)
    made = found.make(found.names(platform), unbound_tool_deps(loaded, home, folder, platform))
    every, model = (*made.tools, *made.rare), loaded.settings.model
    names, toolsets = [tool.name for tool in every], [tool.toolset for tool in every]
    context = visibility_context(loaded, platform, names, toolsets)
    start = PromptInputs(
        home=home.root,
        session_id=NO_SESSION,
        now=SystemClock().now(),
        model=model.default or UNDECIDED,
        provider=model.provider,
        redact=Redactor(loaded.secrets() | stored_secrets(home)).redact,
    )
    skills, notes = (
        SkillCatalog(loaded, home, (), log.info),
        open_notes(loaded, home, place, request),
    )
    prompt = build_prompt(start, skills, context, request, place, notes)
    return PromptPreview(prompt, sum(schema_chars(tool.spec) for tool in made.tools))


def request_size(loaded: Loaded, home: Home, platform: str) -> RequestSize:
    """Measure the fixed part of requests for a session that would start in the current folder."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    made = found.make(found.names(platform), unbound_tool_deps(loaded, home, platform=platform))
    tools = tuple(ToolSize(tool.name, schema_chars(tool.spec), tool.spec) for tool in made.tools)
    prompt = len(preview_prompt(loaded, home, Path.cwd(), platform).prompt.text)
    total = sum(tool.chars for tool in tools) + prompt
    return RequestSize(tools, prompt, total, total // CHARS_PER_TOKEN)


AddContext = Callable[[Sequence[Message], User], Awaitable[str]]


def added_context(settings: Settings, tools: Iterable[str], *sources: AddContext) -> AddContext:
    """Return a function that collects the text to add to a user message: that of `sources`,
    followed by due reminders to save memories and skills."""
    tool_names = frozenset(tools)
    # Without reviews of finished work, the model has to be reminded of skills.
    skills = settings.skills.creation_nudge_interval if settings.skills.review == "off" else 0
    options = NudgeOptions(settings.memory.nudge_interval, skills)

    async def add_context(history: Sequence[Message], question: User) -> str:
        texts = [await source(history, question) for source in sources]
        return "\n\n".join(filter(None, (*texts, nudge(history, tool_names, options))))

    return add_context


def prefill_messages(settings: Settings, home: Home) -> tuple[Message, ...]:
    """Read `agent.prefill_messages_file`. Raises `ConfigError`."""
    name = settings.agent.prefill_messages_file
    if not name:
        return ()
    path = home.root / Path(name).expanduser()
    hint = 'it holds a JSON list of messages: [{"role": "user", "content": "…"}, …]'
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[dict[str, object]])
        return tuple(from_dict(each) for each in found)
    except (OSError, msgspec.MsgspecError, UsageError) as error:
        raise ConfigError(
            f"agent.prefill_messages_file: {error}", where=str(path), hint=hint
        ) from error


# Personalities, which `/personality` adds to the system prompt.

NONE = "none"
_PERSONALITIES = Path(__file__).with_name("personalities.json")
FRAME = "How to talk: {} Facts, code, commands and file contents stay exact and free of it."


@cache
def _builtin_personalities() -> dict[str, str]:
    return msgspec.json.decode(_PERSONALITIES.read_bytes(), type=dict[str, str])


def personality_names(settings: Settings) -> list[str]:
    return sorted({*_builtin_personalities(), *settings.agent.personalities})


def personality_text(name: str, settings: Settings) -> str:
    """Return the text for the system prompt; "" for none. Raises `UsageError`."""
    wanted = name.strip().lower()
    if wanted in ("", NONE, "default", "off"):
        return ""
    own = {key.lower(): value for key, value in settings.agent.personalities.items()}
    found = own.get(wanted) or _builtin_personalities().get(wanted)
    if not found:
        known = ", ".join(personality_names(settings))
        raise UsageError(f"there is no personality {name!r}", hint=f"known: {known}, {NONE}")
    if isinstance(found, dict):
        texts = map(found.get, ("system_prompt", "prompt", "description", "tone", "style"))
        found = " ".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
    return FRAME.format(found)
