"""Errors of a platform's library as those of the gateway."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from hermes.gateway.platforms.base import AdapterError, SendLater, SendUnsure


@contextlib.contextmanager
def told_as(
    into: Callable[[Any], AdapterError],
    trouble: tuple[type[Exception], ...],
    *,
    repeatable: bool = False,
) -> Iterator[None]:
    """`into` says what an error of the kinds in `trouble` means; the error itself is left out,
    since it may name the token. What is `repeatable` may be done twice without harm: there is no
    doubt then, only a later try."""
    try:
        yield
    except trouble as error:
        failure = into(error)
        if repeatable and isinstance(failure, SendUnsure):
            failure = SendLater(str(failure))
        raise failure from None
