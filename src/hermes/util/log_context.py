"""Which session the code that logs is working for."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_session: ContextVar[str] = ContextVar("hermes_session", default="")


def current_session() -> str:
    return _session.get()


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Every record logged within, also by tasks started within, carries `session_id`."""
    token = _session.set(session_id)
    try:
        yield
    finally:
        _session.reset(token)
