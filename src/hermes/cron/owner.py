"""Who runs a job: a process of a machine, and whether it still lives."""

import os
import secrets

from hermes.util.machine import process_began, this_machine

_living: set[str] = set()
"""Owners of this process that still look after their runs."""


def new_owner() -> str:
    """`machine:process:start/part`; it lives until `retire`, or until this process ends."""
    pid = os.getpid()
    owner = f"{this_machine()}:{pid}:{process_began(pid)}/{secrets.token_hex(2)}"
    _living.add(owner)
    return owner


def retire(owner: str) -> None:
    _living.discard(owner)


def is_dead(owner: str) -> bool | None:
    """Whether the process has ended; None when it is one of another machine, or of somebody whose
    processes are hidden."""
    machine, _, rest = owner.partition(":")
    pid, _, started = rest.partition(":")
    if machine != this_machine() or not pid.isdecimal():
        return None
    if int(pid) == os.getpid():
        return owner not in _living
    began = process_began(int(pid))
    return None if began is None else began != started.rpartition("/")[0]
