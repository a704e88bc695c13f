"""How many threads the model gets."""

import os

import psutil

SAMPLE_SECONDS = 0.1
BUSY = 50.0
"""A core above this many percent is taken."""


def threads_for(wanted: int) -> int:
    """`wanted` when it is positive; else the cores that are free right now, at least one.

    More threads than free cores collapse: each step waits for the slowest of them.
    """
    if wanted > 0:
        return wanted
    usable = _usable_cores()
    busy = sum(share > BUSY for share in psutil.cpu_percent(SAMPLE_SECONDS, percpu=True))
    return max(1, min(usable, (psutil.cpu_count() or 1) - busy))


def _usable_cores() -> int:
    """Physical cores this process may run on."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    physical = psutil.cpu_count(logical=False) or 1
    return max(1, min(allowed or 1, physical))
