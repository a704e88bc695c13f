"""Some checks of the table, made for a home of the test."""

from hermes.app.providers import Providers
from hermes.config.home import Home
from hermes.ops.doctor.check import DoctorContext, Outcome, TerminalInfo, best_settings
from hermes.ops.doctor.run import CHECKS, NoProgress, apply_fixes, run_checks
from hermes.util.concurrency import SystemClock

ANY = TerminalInfo()


async def run_named(home: Home, *names: str, fix: bool = False, screen: TerminalInfo = ANY):
    """The outcomes of the named checks, in the order of the names."""
    checks = [check for check in CHECKS if check.name in names]
    assert len(checks) == len(names)
    loaded, clock = best_settings(home), SystemClock()
    if loaded is None:
        outcomes = await run_checks(DoctorContext(home, None, None, clock, screen), checks)
        return sorted(outcomes, key=lambda each: names.index(each.name))
    async with Providers(home, loaded, clock, NoProgress()) as providers:
        context = DoctorContext(home, loaded, providers, clock, screen)
        outcomes = await run_checks(context, checks)
        if fix:
            outcomes = await apply_fixes(context, checks, outcomes)
    return sorted(outcomes, key=lambda each: names.index(each.name))


async def only(home: Home, name: str, **options) -> Outcome:
    (outcome,) = await run_named(home, name, **options)
    return outcome


async def found(home: Home, name: str, level: str, **options) -> str:
    """Return the findings of a check whose worst level is `level`."""
    outcome = await only(home, name, **options)
    assert outcome.level == level
    return texts(outcome)


def texts(outcome: Outcome) -> str:
    return "\n".join(f"{each.level}: {each.text} -> {each.advice}" for each in outcome.found)
