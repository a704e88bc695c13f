"""What every agent of a process shares."""

from collections.abc import Callable

import msgspec

from hermes.app.extensions import Extensions
from hermes.app.providers import Providers
from hermes.app.skill_shelf import SkillShelf
from hermes.app.telemetry.exporting import Telemetry
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.hooks import Hooks
from hermes.core.ports import Clock, Outbox, Scheduler
from hermes.security import Redactor
from hermes.store.session_store import SessionStore


class Services(msgspec.Struct):
    """What tools reach up for. Who composes the program puts in what there is, before the first
    agent is made."""

    scheduler: Scheduler | None = None
    outbox: Outbox | None = None


class AppParts(msgspec.Struct, frozen=True):
    home: Home
    loaded: Loaded
    store: SessionStore
    providers: Providers
    redactor: Redactor
    extensions: Extensions
    skills: SkillShelf
    clock: Clock
    tell: Callable[[str], None]
    """Gets what the user must know beside the conversation."""
    services: Services
    telemetry: Telemetry | None = None
    """None: nobody wants to see traces."""

    @property
    def hooks(self) -> Hooks:
        return self.extensions.hooks
