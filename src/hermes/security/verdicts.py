"""A command line's verdict under the settings in force, as data."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from hermes.security.commands import Examined

COVERED = "covered by command_allowlist"


class Verdict(msgspec.Struct, frozen=True):
    """What would happen if the agent wanted to run `command`."""

    command: str
    verdict: Literal["allow", "ask", "refuse"]
    kind: str = msgspec.field(name="class", default="")
    """The first class; "" when the command is in none."""
    classes: tuple[str, ...] = ()
    reason: str = ""
    """All reasons in one line, or why the classes do not matter."""
    reasons: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def judge(command: str, examined: Examined, mode: str, allowlist: Iterable[str]) -> Verdict:
    """`mode` is the setting `approvals.mode`, `allowlist` is `command_allowlist`."""
    concerns = examined.concerns
    classes = tuple(dict.fromkeys(concern.kind for concern in concerns))
    reasons = tuple(dict.fromkeys(concern.reason for concern in concerns))
    verdict, why = _outcome(examined, mode, {kind.strip().lower() for kind in allowlist})
    return Verdict(
        command,
        verdict,
        kind=classes[0] if classes else "",
        classes=classes,
        reason=why or "; ".join(reasons),
        reasons=reasons,
        programs=examined.programs,
    )


def _outcome(
    examined: Examined, mode: str, allowed: set[str]
) -> tuple[Literal["allow", "ask", "refuse"], str]:
    """The same order as in `hermes.tools.approval`."""
    concerns = examined.concerns
    if not concerns:
        return "allow", ""
    if any(concern.refused for concern in concerns):
        return "refuse", ""
    if mode == "off":
        return "allow", "approvals.mode is off"
    if all(concern.kind.lower() in allowed for concern in concerns):
        return "allow", COVERED
    if mode == "deny":
        return "refuse", "approvals.mode is deny"
    return "ask", ""
