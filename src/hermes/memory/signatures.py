"""Calling methods that take less than there is to say."""

import inspect
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def invoke(thing: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call `method` with as much of the arguments as it takes: plugins write the short forms of
    the documentation, `sync_turn(self, user, assistant)`, say."""
    function = getattr(thing, method)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, say: it is expected to take everything
        return function(*args, **kwargs)
    kinds = {each.kind for each in parameters}
    places = [each.name for each in parameters if each.kind in _POSITIONAL]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        args = args[: len(places)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        only = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        known = only | set(places[len(args) :])
        kwargs = {name: value for name, value in kwargs.items() if name in known}
    return function(*args, **kwargs)
