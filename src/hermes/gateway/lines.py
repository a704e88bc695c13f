"""The platforms we are on: each an adapter and its rate limits."""

from collections.abc import Callable, Iterator

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.contract import Adapter, Capabilities, Manifest, Outgoing, Target
from hermes.gateway.platforms.kit.rate_limit import Buckets

Place = tuple[str, str]
"""Platform and account."""


class Line(msgspec.Struct, frozen=True, eq=False):
    adapter: Adapter
    buckets: Buckets
    doubt: Callable[[], None] = lambda: None
    """Has the connection looked at now: a call found it gone."""

    @property
    def manifest(self) -> Manifest:
        return self.adapter.manifest

    @property
    def capabilities(self) -> Capabilities:
        return self.adapter.manifest.capabilities


class Lines:
    """Those that are connected at present. Messages for the others wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._up: dict[Place, Line] = {}
        self._buckets: dict[Place, Buckets] = {}

    def up(self, adapter: Adapter, doubt: Callable[[], None] = lambda: None) -> None:
        place = (adapter.manifest.name, adapter.account)
        # What was sent before a reconnection still counts.
        can = adapter.manifest.capabilities
        fresh = Buckets(can.per_chat, can.per_platform, self._clock)
        buckets = self._buckets.setdefault(place, fresh)
        self._up[place] = Line(adapter, buckets, doubt)

    def down(self, adapter: Adapter) -> None:
        self._up.pop((adapter.manifest.name, adapter.account), None)

    def places(self) -> tuple[Place, ...]:
        """Where messages can go now."""
        return tuple(place for place, line in self._up.items() if line.manifest.chats)

    def get(self, platform: str, account: str = "") -> Line | None:
        return self._up.get((platform, account))

    def of(self, target: Target) -> Line | None:
        """The line of a target; one without an account takes the first of its platform."""
        if line := self._up.get((target.platform, target.account)):
            return line
        return next((each for each in self if each.manifest.name == target.platform), None)

    def __iter__(self) -> Iterator[Line]:
        return iter(tuple(self._up.values()))


def lane(target: Target) -> str:
    """What keeps the order of a chat's messages."""
    return msgspec.json.encode(
        [target.platform, target.account, target.chat_id, target.thread_id]
    ).decode()


_targets, _messages = msgspec.json.Decoder(Target), msgspec.json.Decoder(Outgoing)


def target_of(data: bytes) -> Target:
    return _targets.decode(data)


def message_of(data: bytes) -> Outgoing:
    return _messages.decode(data)
