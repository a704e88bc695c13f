"""Checks run side by side, and one that misbehaves is a finding, not the end."""

import asyncio
import threading

from hermes.core.errors import ConfigError
from hermes.ops.doctor.check import Check, DoctorContext, TerminalInfo, ok, warning
from hermes.ops.doctor.run import CHECKS, CONCURRENT_CHECKS, apply_fixes, run_checks
from hermes.util.concurrency import SystemClock


def context(home, **options):
    return DoctorContext(home, None, None, SystemClock(), TerminalInfo(), **options)


def check(name, look, **options):
    return Check("Group", name, look, needs_settings=False, **options)


async def test_a_check_that_raises_is_reported_and_the_others_still_answer(home):
    def broken(_):
        raise ZeroDivisionError("no")

    def refused(_):
        raise ConfigError("the file is odd", hint="look at it")

    found = await run_checks(
        context(home), [check("a", broken), check("b", refused), check("c", lambda _: [ok("well")])]
    )
    assert [each.level for each in found] == ["problem", "problem", "ok"]
    assert "ZeroDivisionError" in found[0].found[0].text
    assert (found[1].found[0].text, found[1].found[0].advice) == ("the file is odd", "look at it")


async def test_a_check_that_hangs_is_reported_and_delays_no_other(home):
    async def answers_at_once(_):
        return []

    never = threading.Event()
    found = await run_checks(
        context(home),
        [check("hang", lambda _: never.wait()), check("b", answers_at_once)],
        seconds=0.05,
    )
    assert "did not end" in found[0].found[0].text
    assert found[1].level == "ok"


async def test_fix_applies_fixes_and_runs_the_check_again(home):
    file = home.root / "thing"

    def look(_):
        if file.exists():
            return [ok("it is there")]
        return [warning("it is gone", "make it", lambda: file.touch() or "made it")]

    checks = [check("thing", look), check("other", lambda _: [ok("well")])]
    outcomes = await apply_fixes(context(home), checks, await run_checks(context(home), checks))
    assert (outcomes[0].fixed, outcomes[0].level) == (("made it",), "ok")
    assert outcomes[1].fixed == ()


async def test_a_failed_fix_is_reported(home):
    def fails():
        raise PermissionError(13, "Permission denied")

    checks = [check("thing", lambda _: [warning("bad", "do it", fails)])]
    (outcome,) = await apply_fixes(context(home), checks, await run_checks(context(home), checks))
    assert "could not be fixed" in outcome.fixed[0]
    assert outcome.level == "warning"


async def test_offline_leaves_out_what_asks_other_machines(home):
    asked = []
    checks = [check("net", lambda _: asked.append(1) or [], online=True)]
    assert await run_checks(context(home, offline=True), checks) == []
    assert asked == []


async def test_without_any_settings_only_the_checks_that_need_none_are_made(home):
    found = await run_checks(context(home), CHECKS)
    names = {each.name for each in found}
    assert {"folder", "config.yaml", ".env"} <= names
    assert "model" not in names


def test_every_check_has_a_name_of_its_own():
    assert len({each.name for each in CHECKS}) == len(CHECKS)


async def test_few_checks_run_at_once_so_that_none_waits_for_the_work_of_many(home):
    running, most = 0, 0

    async def work(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return [ok("done")]

    checks = [check(f"check {number}", work) for number in range(40)]
    found = await run_checks(context(home), checks)
    assert {outcome.level for outcome in found} == {"ok"}
    assert most == CONCURRENT_CHECKS
