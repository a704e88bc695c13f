"""Functions of plugins, wrapped so that the program can call them without care."""

import argparse
import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hermes.plugins.apart import PluginFailed, described, run_apart
from hermes.plugins.calling import Known, is_async
from hermes.plugins.host import Act, CommandHandler, SetUp
from hermes.plugins.reports import Reports
from hermes.util.threads import in_thread

CHECK_SECONDS = 5.0
"""Longest time a tool's check may take; it runs when a session starts."""


async def called(function: Callable[..., Any], /, *given: Any, **details: Any) -> Any:
    """The answer of a function of a plugin: async on the event loop, any other in a thread.

    Raises `PluginFailed` for what would end the event loop, and whatever else it raises.
    """

    def call() -> Any:
        with _no_exit():
            return function(*given, **details)

    answer = call() if is_async(function) else await in_thread(call)
    with _no_exit():
        return await answer if inspect.isawaitable(answer) else answer


@contextmanager
def _no_exit() -> Iterator[None]:
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        raise PluginFailed(described(error)) from error


def command_guard(plugin: str, name: str, handler: Callable[..., Any]) -> CommandHandler:
    """A slash command whose failure is what the user reads as its answer."""

    async def run(raw_args: str) -> str:
        work = asyncio.ensure_future(called(handler, raw_args))
        try:
            await asyncio.wait({work})
        finally:
            work.cancel()  # when the user stopped waiting
        if work.cancelled():
            return f"/{name} of plugin {plugin} was cancelled"
        if (failure := work.exception()) is not None:
            return f"/{name} of plugin {plugin} failed: {described(failure)}"
        answer = work.result()
        return "" if answer is None else str(answer)

    return run


def check_guard(
    plugin: str, name: str, check: Callable[[], Any], reports: Reports
) -> Callable[[], bool]:
    """A tool's check; one that fails or hangs says no."""

    def usable() -> bool:
        try:
            return bool(run_apart(check, CHECK_SECONDS))
        except PluginFailed as error:
            text = f"plugin {plugin}: tool {name} is left out: its check failed: {error}"
            reports.once((plugin, "check", name), text, error)
            return False

    return usable


def tool_guard(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A tool handler that takes any keyword argument, and passes on those it knows."""
    known = Known(handler)
    if is_async(handler):

        async def wait(arguments: dict[str, Any], **details: Any) -> Any:
            return await handler(arguments, **known.of(details))

        return wait

    def call(arguments: dict[str, Any], **details: Any) -> Any:
        return handler(arguments, **known.of(details))

    return call


def cli_guards(
    plugin: str, name: str, setup_fn: Callable[..., Any], handler_fn: Callable[..., Any]
) -> tuple[SetUp, Act]:
    """A subcommand whose failure is an error like any other."""

    def set_up(parser: argparse.ArgumentParser) -> None:
        _attempt(plugin, name, lambda: setup_fn(parser))

    def act(args: argparse.Namespace) -> int:
        code = _attempt(plugin, name, lambda: handler_fn(args))
        return code if isinstance(code, int) else 0

    return set_up, act


def _attempt(plugin: str, name: str, work: Callable[[], Any]) -> Any:
    """In this thread: the command belongs to the user, who can end it with Ctrl-C."""
    try:
        return work()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) or error.code is None else 1
    except Exception as error:  # whatever it is, it is the plugin's
        raise PluginFailed(
            f"`hermes {name}` of plugin {plugin} failed: {described(error)}",
            hint=f"`hermes plugins disable {plugin}` switches it off",
        ) from error
