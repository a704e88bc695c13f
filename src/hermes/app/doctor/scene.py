"""What the checks look at: one home, its settings, the models and the terminal."""

from typing import TypeVar

import msgspec

from hermes.app.doctor.asking import Asking
from hermes.app.providers import Providers
from hermes.config.environment import variables
from hermes.config.home import Home
from hermes.config.loader import Loaded, examine
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.core.ports import Clock

T = TypeVar("T")


class Screen(msgspec.Struct, frozen=True):
    """The terminal the doctor was called in."""

    is_terminal: bool = False
    columns: int = 80
    encoding: str = "utf-8"
    term: str = ""
    colours: int = 0


class Scene:
    """`loaded` and `providers` are None where not even defaults could be read."""

    def __init__(
        self,
        home: Home,
        loaded: Loaded | None,
        providers: Providers | None,
        clock: Clock,
        screen: Screen,
        *,
        offline: bool = False,
    ) -> None:
        self.home, self.clock, self.screen, self.offline = home, clock, screen, offline
        self.environment = dict(variables())
        """As it was at first: a memory provider is given what is in .env."""
        self._loaded, self._providers = loaded, providers
        self._asking = Asking(providers, clock) if providers else None

    @property
    def has_settings(self) -> bool:
        return self._loaded is not None

    @property
    def loaded(self) -> Loaded:
        return _there(self._loaded)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def providers(self) -> Providers:
        return _there(self._providers)

    @property
    def asking(self) -> Asking:
        return _there(self._asking)


def best_settings(home: Home) -> Loaded | None:
    """The settings as far as they can be read: without a config.yaml that cannot be parsed, and
    None when not even that helps. Another check says what is wrong."""
    for user_config in (True, False):
        try:
            return examine(home, user_config=user_config)
        except ConfigError:
            continue
    return None


def _there(thing: T | None) -> T:
    if thing is None:
        raise ConfigError("the settings cannot be read")
    return thing
