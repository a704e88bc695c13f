"""Ids of Discord. They grow with time, over all channels."""

from hermes.gateway.platforms.kit.seen import Scale

EPOCH = 1_420_070_400.0
"""The second (since 1970) that ids count from."""


def id_at(seconds: float) -> int:
    """The least id of that time."""
    return max(int((seconds - EPOCH) * 1000), 0) << 22


def time_of(number: int) -> float:
    return (number >> 22) / 1000 + EPOCH


SCALE = Scale(int, id_at, time_of)
