"""Running the checks side by side, each on its own: one that fails or hangs is itself reported."""

import asyncio
import inspect
import logging
import time
from collections.abc import Iterable, Sequence

import msgspec

from hermes.app.doctor.findings import Check, Finding, Found, Outcome, problem
from hermes.app.doctor.scene import Scene
from hermes.core.errors import HermesError
from hermes.util.threads import in_thread

log = logging.getLogger(__name__)

SECONDS = 10.0
"""Longest time for one check."""
MEND_SECONDS = 120.0


async def examine(
    scene: Scene, checks: Iterable[Check], *, seconds: float = SECONDS
) -> list[Outcome]:
    """What each check found, in the order of the table."""
    chosen = [
        check
        for check in checks
        if not (scene.offline and check.online) and (scene.has_settings or not check.needs_settings)
    ]
    return list(await asyncio.gather(*(_run(check, scene, seconds) for check in chosen)))


async def mend(
    scene: Scene, checks: Sequence[Check], outcomes: Sequence[Outcome], *, seconds: float = SECONDS
) -> list[Outcome]:
    """Mend what can be mended, one thing after the other, and look at it again."""
    by_name = {check.name: check for check in checks}
    mended: list[Outcome] = []
    for outcome in outcomes:
        done = [await _mended(each) for each in outcome.found if each.mend is not None]
        if done:
            again = await _run(by_name[outcome.name], scene, seconds)
            outcome = msgspec.structs.replace(again, mended=tuple(done))
        mended.append(outcome)
    return mended


async def _run(check: Check, scene: Scene, seconds: float) -> Outcome:
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            found = await _look(check, scene)
    except TimeoutError:
        text = f"this check did not end within {seconds:g} s"
        found = [problem(text, "something it looks at hangs: a disk, a program or the network")]
    except HermesError as error:
        found = [problem(str(error), error.hint or "mend that and run `hermes doctor` again")]
    except OSError as error:
        found = [problem(str(error), "look at the permissions of that file and of its folder")]
    except Exception as error:  # one check must not keep the others from being made
        if log.hasHandlers():  # else Python would print it
            log.warning("the check %s failed", check.name, exc_info=error)
        text = f"this check failed: {type(error).__name__}: {error}"
        found = [problem(text, "this is a bug of Hermes; `hermes debug share` makes a report")]
    took = time.monotonic() - began
    return Outcome(check.group, check.name, tuple(found), seconds=round(took, 3))


async def _look(check: Check, scene: Scene) -> Found:
    if inspect.iscoroutinefunction(check.look):
        return list(await check.look(scene))
    found: Found = await in_thread(check.look, scene)  # type: ignore[arg-type]  # no coroutine
    return found


async def _mended(found: Finding) -> str:
    if found.mend is None:
        return ""
    try:
        async with asyncio.timeout(MEND_SECONDS):
            return await in_thread(found.mend)
    except TimeoutError:
        return f"not mended in {MEND_SECONDS:g} s: {found.text}"
    except (HermesError, OSError) as error:
        return f"could not be mended: {error}"
