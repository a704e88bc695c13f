"""The tools that need more than a place to work: memory, old conversations, subagents."""

import os.path
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.app.parts import Services
from hermes.app.request import SessionRequest
from hermes.app.skill_shelf import SessionSkills, SkillShelf
from hermes.app.workplaces import Place
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.core.ports import Auxiliary, Spawner
from hermes.core.tool import Tool
from hermes.memory.notes import BuiltinMemory, MemoryOptions, open_memory
from hermes.memory.tool import OnWrite, memory_tool
from hermes.security.injection import scan
from hermes.tools.builtin.cronjob import cronjob_tool
from hermes.tools.builtin.delegate_task import DelegationOptions, delegate_task_tool
from hermes.tools.builtin.send_message import send_message_tool
from hermes.tools.builtin.session_search import PastSessions, SearchOptions, session_search_tool
from hermes.util.paths import inside, upwards


def memory_of(
    loaded: Loaded, home: Home, place: Place, request: SessionRequest
) -> BuiltinMemory | None:
    """The notes and the profile of a session; None when the settings or the request say so."""
    settings = loaded.settings.memory
    if request.skip_memory or not (settings.memory_enabled or settings.user_profile_enabled):
        return None
    options = MemoryOptions(
        memory_enabled=settings.memory_enabled,
        user_profile_enabled=settings.user_profile_enabled,
        memory_char_limit=settings.memory_char_limit,
        user_char_limit=settings.user_char_limit,
    )
    # A guest's notes must not come up in what the owner is told of the project.
    own = place.here and not request.scope.user
    project = project_root(place.folder) if own else ""
    scope = msgspec.structs.replace(request.scope, project=request.scope.project or project)
    return open_memory(home.root / "memories", scope, options, scan)


def project_root(folder: str | Path) -> str:
    """The root of the git repository `folder` is in; "" when it is in none."""
    for each in upwards(str(folder)):
        if os.path.exists(inside(each, ".git")):  # noqa: PTH110 - each session asks
            return each
    return ""


def given_tools(
    settings: Settings,
    memory: BuiltinMemory | None,
    sessions: PastSessions,
    auxiliary: Auxiliary | None,
    current: Callable[[], str],
    spawner: Spawner,
    request: SessionRequest,
    services: Services,
    on_write: OnWrite | None = None,
    skills: SessionSkills | None = None,
) -> dict[str, Tool]:
    """By name. `current` is the id of the session at the moment; `on_write` hears of notes."""
    asked = settings.auxiliary.session_search
    search = SearchOptions(asked.max_concurrency, asked.timeout, user=request.user_id)
    delegation = settings.delegation
    options = DelegationOptions(delegation.max_concurrent_children, delegation.orchestrator_enabled)
    found = {
        "session_search": session_search_tool(sessions, auxiliary, current, search),
        "delegate_task": delegate_task_tool(spawner, options),
    }
    if skills is not None:
        found |= skills.tools()
    if memory is not None:
        found["memory"] = memory_tool(memory, on_write)
    if services.scheduler is not None and request.source != "cron":  # a job makes no jobs
        found["cronjob"] = cronjob_tool(services.scheduler, request.origin, _limits(request))
    if services.outbox is not None:
        found["send_message"] = send_message_tool(services.outbox, request.origin)
    return found


def _limits(request: SessionRequest) -> dict[str, Any]:
    """Under which a job runs that this session makes (the field `by` of a job)."""
    limits = {
        "user": request.user_id,
        "folder": str(request.working_folder) if request.user_id else "",
        "toolsets": list(request.toolsets),
        "backend": request.backend,
        "day_usd": request.user_day_usd,
    }
    return {name: value for name, value in limits.items() if value}


def idle_tools(
    loaded: Loaded, home: Home, place: Place, request: SessionRequest
) -> dict[str, Tool]:
    """The same, only to be looked at."""
    memory = memory_of(loaded, home, place, request)
    nothing = cast("Any", None)  # nobody calls them
    shelf = SkillShelf(loaded, home, (), lambda _text: None)
    skills = shelf.session(place, request.source, str, None)
    services = Services(cast("Any", object()), cast("Any", object()))
    return given_tools(
        loaded.settings, memory, nothing, None, str, nothing, request, services, skills=skills
    )
