"""Who writes a conversation: whoever lost the right to its chat writes nothing more into it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from hermes.store.mail import Fenced
from hermes.store.queries import chats
from hermes.store.sql import Database

T = TypeVar("T")

_right: ContextVar[Fenced | None] = ContextVar("hermes_right", default=None)


@contextmanager
def under(right: Fenced) -> Iterator[None]:
    """What is written to conversations in here, also by tasks that are started in here, is refused
    with `LeaseLost` once the right is not the chat's newest any more."""
    token = _right.set(right)
    try:
        yield
    finally:
        _right.reset(token)


def fenced(work: Callable[[Database], T]) -> Callable[[Database], T]:
    """`work`, in one transaction with the question whether the caller may."""
    right = _right.get()
    if right is None:
        return work

    def insisting(database: Database) -> T:
        chats.insist(database, right)
        return work(database)

    return insisting
