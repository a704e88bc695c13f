"""Calling functions of plugins with the keyword arguments they know."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hermes.plugins.events import ALIASES

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Known:
    """Which keyword arguments a function takes: those it names, or all with `**kwargs`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C: it does not say
            self._all, self._names = True, frozenset[str]()
            return
        self._all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._names = frozenset(each.name for each in parameters if each.kind in _NAMED)

    def of(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """What of `details` the function is given, under the names it uses."""
        names = details.keys() if self._all else details.keys() & self._names
        known = {name: details[name] for name in names}
        for alias, name in ALIASES.items():
            if alias in self._names and alias not in details and name in details:
                known[alias] = details[name]
        return known


def is_async(function: Callable[..., Any]) -> bool:
    """Also for an object whose `__call__` is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not asking whether it can be called
    )
