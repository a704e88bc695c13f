"""Names of processes in leases: `machine:pid:when it began`, so that the dead are known."""

import os
from collections.abc import Callable

import msgspec

from hermes.util.machine import process_began, this_machine


class Owner(msgspec.Struct, frozen=True):
    """This process, as leases and messages on their way name it."""

    name: str
    dead: Callable[[tuple[str, ...]], tuple[str, ...]]
    """Of some owners those that surely do not live any more."""


def this_process() -> str:
    return f"{this_machine()}:{os.getpid()}:{process_began(os.getpid())}"


def dead_ones(owners: tuple[str, ...]) -> tuple[str, ...]:
    """Those of this machine whose process is gone. Of other machines nothing is known here."""
    return tuple(owner for owner in owners if _is_dead(owner))


def _is_dead(owner: str) -> bool:
    host, _, rest = owner.partition(":")
    pid, _, began = rest.partition(":")
    return (
        host == this_machine() and pid.isdecimal() and process_began(int(pid)) not in (began, None)
    )
