"""The agents that `delegate_task` starts."""

from collections.abc import AsyncGenerator

import msgspec

from hermes.agent import Agent
from hermes.app.agents import Making, Start
from hermes.app.choices import fallback_choices
from hermes.app.parts import AppParts
from hermes.app.tools import Toolsets, find_toolsets
from hermes.config.settings.agent import DelegationSettings
from hermes.core.events import Event
from hermes.core.messages import User
from hermes.core.ports import ChildTask
from hermes.providers import CUSTOM, ModelChoice, Target
from hermes.tools.builtin.delegate_task import allowed_tools
from hermes.util.session_ids import new_session_id

SOURCE = "subagent"


class Subagent:
    """An agent for one task (`agent.subagents.Subagent`)."""

    def __init__(self, making: Making, agent: Agent) -> None:
        self._making, self._agent = making, agent

    @property
    def session_id(self) -> str:
        return self._agent.session_id

    def run(self, message: User) -> AsyncGenerator[Event, None]:
        return self._agent.run(message)

    def interrupt(self, reason: str) -> bool:
        return self._agent.interrupt(reason)

    async def close(self) -> None:
        await self._making.close()


class Subagents:
    """Starts them: with the parent's money, consent, fallbacks and budget of calls, and fewer
    tools."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts

    async def start(self, parent: Making, task: ChildTask) -> Subagent:
        settings = self._parts.loaded.settings
        delegation, above = settings.delegation, parent.start
        depth = above.depth + 1
        asked = task.max_iterations or delegation.max_iterations
        target = self._target(delegation, parent.target)
        toolsets = find_toolsets(self._parts.loaded, above.brought)
        making = Making(
            self._parts,
            Start(
                request=msgspec.structs.replace(
                    above.request,
                    resume="",
                    latest=False,
                    session_id="",
                    history=(),
                    source=SOURCE,
                    clarifier=None,
                    goes_on=False,
                    system_message="",
                    skip_context_files=True,
                    skip_memory=True,
                ),
                session_id=new_session_id(self._parts.clock.now()),
                target=target,
                fallbacks=above.fallbacks or tuple(fallback_choices(settings)),
                tools=self._tools(task, above, toolsets, depth),
                purse=above.purse,
                max_iterations=min(asked, delegation.max_iterations),
                depth=depth,
                parent=parent,
                brought=above.brought,
                toolsets=toolsets,
            ),
            self.start,
        )
        return Subagent(making, await making.make())

    def _tools(self, task: ChildTask, above: Start, toolsets: Toolsets, depth: int) -> list[str]:
        """Those the task asks for, as far as the parent has them and a subagent may."""
        jobless = above.request.source == "cron"  # a job makes no jobs, nor does who works for it
        names = [name for name in above.tools if not (jobless and name == "cronjob")]
        if task.toolsets:
            wanted = toolsets.names(above.request.source, task.toolsets)
            names = [name for name in wanted if name in names]
        settings = self._parts.loaded.settings.delegation
        return allowed_tools(
            names, task.role, depth, settings.max_spawn_depth, settings.orchestrator_enabled
        )

    def _target(self, settings: DelegationSettings, main: Target) -> Target:
        """The model of the parent, unless the settings name another."""
        if not (settings.model or settings.provider or settings.base_url):
            return main
        resolver = self._parts.providers.resolver
        if settings.model and not (settings.provider or settings.base_url):
            return resolver.with_model(main, settings.model)
        return resolver.resolve(
            ModelChoice(
                provider=settings.provider or CUSTOM,
                model=settings.model or main.model,
                base_url=settings.base_url,
                api_key=settings.api_key,
                reason="delegation.provider is set",
                base_url_source="delegation.base_url",
            )
        )
