"""Run all checks, some at a time; a check that fails or hangs is reported as a problem."""

import asyncio
import inspect
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

import msgspec

from hermes.app import Providers
from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.ops.doctor import machine_checks, setup_checks
from hermes.ops.doctor.check import (
    Check,
    DoctorContext,
    Findings,
    Fix,
    Outcome,
    TerminalInfo,
    best_settings,
    problem,
)
from hermes.util.concurrency import in_thread

log = logging.getLogger(__name__)

CHECK_TIMEOUT = 10.0  #: Time limit in seconds for one check.
FIX_TIMEOUT = 120.0
CONCURRENT_CHECKS = 4


async def run_checks(
    context: DoctorContext, checks: Iterable[Check], *, seconds: float = CHECK_TIMEOUT
) -> list[Outcome]:
    """Return the results, in the order of the table."""
    chosen = [
        check
        for check in checks
        if not (context.offline and check.online)
        and (context.has_settings or not check.needs_settings)
    ]
    # With all checks at once, the time of each would include the work of the others and exceed its
    # limit on a loaded machine.
    turn = asyncio.Semaphore(CONCURRENT_CHECKS)

    async def run(check: Check) -> Outcome:
        async with turn:
            return await _run(check, context, seconds)

    return list(await asyncio.gather(*map(run, chosen)))


async def apply_fixes(
    context: DoctorContext,
    checks: Sequence[Check],
    outcomes: Sequence[Outcome],
    *,
    seconds: float = CHECK_TIMEOUT,
) -> list[Outcome]:
    """Apply all fixes, one after the other, and run the fixed checks again."""
    by_name = {check.name: check for check in checks}
    results: list[Outcome] = []
    for outcome in outcomes:
        done = [await _apply_fix(each.fix, each.text) for each in outcome.found if each.fix]
        if done:
            again = await _run(by_name[outcome.name], context, seconds)
            outcome = msgspec.structs.replace(again, fixed=tuple(done))
        results.append(outcome)
    return results


async def _run(check: Check, context: DoctorContext, seconds: float) -> Outcome:
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            if inspect.iscoroutinefunction(check.run):
                found: Findings = await check.run(context)
            else:
                found = await in_thread(check.run, context)  # type: ignore[arg-type]
    except TimeoutError:
        text = f"this check did not end within {seconds:g} s"
        found = [problem(text, "a disk, a program or the network does not respond")]
    except HermesError as error:
        found = [problem(str(error), error.hint or "fix that and run `hermes doctor` again")]
    except OSError as error:
        found = [problem(str(error), "check the permissions of that file and of its folder")]
    except Exception as error:  # one check must not stop the others
        if log.hasHandlers():  # without handlers Python would print it
            log.warning("the check %s failed", check.name, exc_info=error)
        text = f"this check failed: {type(error).__name__}: {error}"
        found = [problem(text, "this is a bug in Hermes; `hermes debug share` creates a report")]
    took = time.monotonic() - began
    return Outcome(check.group, check.name, tuple(found), seconds=round(took, 3))


async def _apply_fix(fix: Fix, text: str) -> str:
    try:
        async with asyncio.timeout(FIX_TIMEOUT):
            return await in_thread(fix)
    except TimeoutError:
        return f"not fixed within {FIX_TIMEOUT:g} s: {text}"
    except (HermesError, OSError) as error:
        return f"could not be fixed: {error}"


# All checks, in the order of the report.

CHECKS: tuple[Check, ...] = (
    Check("Program", "python", machine_checks.python, needs_settings=False),
    Check("Program", "packages", machine_checks.packages, needs_settings=False),
    Check("Home", "folder", machine_checks.folder, needs_settings=False),
    Check("Home", "owner", machine_checks.owner, needs_settings=False),
    Check("Home", "permissions", machine_checks.permissions, needs_settings=False),
    Check("Home", "disk space", machine_checks.disk_space, needs_settings=False),
    Check("Home", "file system", machine_checks.file_system, needs_settings=False),
    Check("Home", "profiles", setup_checks.profiles, needs_settings=False),
    Check("Settings", "config.yaml", setup_checks.config, needs_settings=False),
    Check("Settings", ".env", setup_checks.variables, needs_settings=False),
    Check("Settings", "auth.json", setup_checks.logins, needs_settings=False),
    Check("Settings", "time zone", machine_checks.time_zone),
    Check("Model", "model", setup_checks.main_model),
    Check("Model", "endpoint", setup_checks.endpoint, online=True),
    Check("Model", "context", setup_checks.context_window),
    Check("Model", "fallbacks", setup_checks.fallbacks, online=True),
    Check("Model", "auxiliary", setup_checks.auxiliary),
    Check("Model", "embedded", setup_checks.weights),
    Check("Model", "clock", machine_checks.clock, online=True),
    Check("Data", "sessions", setup_checks.session_store),
    Check("Data", "session server", setup_checks.session_server, online=True),
    Check("Data", "logs", machine_checks.logs),
    Check("Data", "caches", machine_checks.caches, needs_settings=False),
    Check("Abilities", "skills", setup_checks.skills),
    Check("Abilities", "plugins", setup_checks.plugins),
    Check("Abilities", "hooks", setup_checks.hooks),
    Check("Abilities", "mcp", setup_checks.mcp),
    Check("Abilities", "memory", setup_checks.memory),
    Check("Machine", "programs", machine_checks.programs, needs_settings=False),
    Check("Machine", "backend", machine_checks.backend),
    Check("Machine", "terminal", machine_checks.terminal, needs_settings=False),
    Check("Machine", "temporary files", machine_checks.temporary_files, needs_settings=False),
    Check("Machine", "processes", machine_checks.processes, needs_settings=False),
    Check("Machine", "downloads", machine_checks.downloads, needs_settings=False),
)


class NoProgress:
    """A `DownloadProgress` that shows nothing: no check downloads a model."""

    def say(self, text: str) -> None:
        pass

    def report(self, label: str, done: int, total: int) -> None:
        pass


async def run_doctor(
    home: Home,
    clock: Clock,
    *,
    fix: bool = False,
    offline: bool = False,
    screen: TerminalInfo = TerminalInfo(),  # noqa: B008 - frozen
) -> list[Outcome]:
    """Run all checks; with `fix`, also apply the safe fixes."""
    loaded = best_settings(home)
    async with AsyncExitStack() as stack:
        providers = None
        if loaded is not None:
            providers = Providers(home, loaded, clock, NoProgress())
            await stack.enter_async_context(providers)
        context = DoctorContext(home, loaded, providers, clock, screen, offline=offline)
        outcomes = await run_checks(context, CHECKS)
        return await apply_fixes(context, CHECKS, outcomes) if fix else outcomes
