"""The wiring of Hermes: from settings to a running agent, for every surface.

`App` holds what one process shares; `App.agent(SessionRequest(...))` builds an agent. Slash
commands and `@` references are here too: they stand between the user's text and the agent.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.app.app import App, BackgroundTasks
    from hermes.app.build import AgentSession, build_agent
    from hermes.app.extensions import Extensions
    from hermes.app.providers import AuxiliaryModels, Providers
    from hermes.app.request import Services, SessionRequest
    from hermes.app.workspace import SessionWorkspace, make_workspace

__all__ = [
    "AgentSession", "App", "AuxiliaryModels",
    "BackgroundTasks", "Extensions", "Providers", "Services", "SessionRequest",
    "SessionWorkspace", "build_agent", "make_workspace",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
