"""What a session offers its tools beyond the workplace: memory, skills, subagents, messages."""

import os.path
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.parts import Services
from hermes.app.request import SessionRequest
from hermes.app.skill_shelf import SessionSkills, SkillShelf
from hermes.app.workplaces import Place
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.ports import Attachments, Spawner
from hermes.memory import BuiltinMemory, MemoryOptions, OnWrite, memory_tool, open_memory
from hermes.security.injection import scan
from hermes.store.session_store import SessionStore
from hermes.tools import SessionServices
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


def session_services(
    memory: BuiltinMemory | None,
    sessions: SessionStore,
    current: Callable[[], str],
    spawner: Spawner,
    request: SessionRequest,
    services: Services,
    on_write: OnWrite | None = None,
    skills: SessionSkills | None = None,
    attachments: Attachments | None = None,
) -> SessionServices:
    """Collect what the tools of a session may use.

    `current` returns the id of the session. `on_write` is called for each change of the memory.
    """
    tools = skills.tools() if skills is not None else {}
    if memory is not None:
        tools["memory"] = memory_tool(memory, on_write)
    return SessionServices(
        sessions=sessions,
        spawner=spawner,
        # A scheduled job must not schedule further jobs.
        scheduler=services.scheduler if request.source != "cron" else None,
        outbox=services.outbox,
        attachments=attachments,
        current_session=current,
        user=request.user_id,
        origin=request.origin,
        job_limits=_limits(request),
        tools=tools,
    )


def _limits(request: SessionRequest) -> dict[str, Any]:
    """Under which a job runs that this session makes (the field `by` of a job)."""
    limits = {
        "user": request.user_id,
        "folder": str(request.working_folder) if request.user_id else "",
        "toolsets": list(request.toolsets),
        "backend": request.backend,
        "day_usd": request.user_day_usd,
        "no_files": not request.sends_files,
    }
    return {name: value for name, value in limits.items() if value}


def idle_services(
    loaded: Loaded, home: Home, place: Place, request: SessionRequest
) -> SessionServices:
    """Return services for tools that are only listed: they have schemas and are never called."""
    memory = memory_of(loaded, home, place, request)
    unused: Any = object()
    shelf = SkillShelf(loaded, home, (), lambda _text: None)
    skills = shelf.session(place, request.source, str, None)
    return session_services(
        memory, unused, str, unused, request, Services(unused, unused), skills=skills
    )
