"""What a job may do: no more than those who made and changed it."""

import msgspec

from hermes.tools.toolsets import EVERYTHING


class By(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who made it in a chat, and within which limits: a job may do no more than they may."""

    user: str = ""
    """Whose memory and money; "" is the owner."""
    folder: str = ""
    backend: str = ""
    toolsets: tuple[str, ...] = ()
    day_usd: float | None = None

    def within(self, other: "By") -> "By":
        """What both allow; of two places to work in, that of this one."""
        caps = [cap for cap in (self.day_usd, other.day_usd) if cap is not None]
        return By(
            self.user or other.user,
            self.folder or other.folder,
            _confined(self.backend, other.backend),
            common(self.toolsets, other.toolsets),
            min(caps, default=None),
        )


def common(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """The toolsets that both lists have; an empty list has them all."""
    if not some or not others:
        return some or others
    taken = [name for name in (*some, *others) if name.startswith("-")]
    kept = [
        name
        for names, limits in ((some, others), (others, some))
        for name in names
        if name not in taken and {name, *EVERYTHING}.intersection(limits)
    ]
    return tuple(dict.fromkeys((*kept, *taken))) or ("-all",)


def _confined(backend: str, other: str) -> str:
    """Without a name it is that of the settings, which is never wider than this machine."""
    if backend == other:
        return backend
    return next((name for name in (backend, other) if name not in ("", "local")), "")
