"""The confirmed policy: what the agent may do without being asked, as a person last confirmed it.

`integrity/policy.json` holds the values of the settings in `RANKS`, `LISTS` and `RULES`, and the
approved shell hooks. The first start of a home stores what it finds. From then on a stricter value
takes effect and is stored at once. A weaker one has no effect until a person confirms it at a
terminal: with `hermes approvals confirm`, by changing it with `hermes config set`, or by the answer
`always`. Options and variables of the user's own start, such as `--yolo`, are not part of it.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.environment import Parts
from hermes.config.home import change_lock, unusable
from hermes.config.own_files import FOLDER, LOCK_SECONDS, POLICY, write_own
from hermes.config.schema import find
from hermes.config.settings import Settings

log = logging.getLogger(__name__)

RANKS: dict[Parts, dict[Any, int]] = {
    ("approvals", "mode"): {"deny": 0, "manual": 1, "smart": 2, "off": 3},
    ("approvals", "permission_mode"): {"plan": 0, "ask": 1, "accept-edits": 2, "auto": 3},
    ("approvals", "headless"): {"deny": 0, "allow": 1},
    ("hooks_auto_accept",): {False: 0, True: 1},
    ("security", "boundary"): {"auto": 0, "namespace": 0, "landlock": 0, "none": 1},
    ("terminal", "backend"): {"sandbox": 0, "docker": 0, "ssh": 1, "local": 2},
}
"""Values with their ranks; a higher one is weaker. Another terminal backend counts as isolated."""
LISTS: tuple[Parts, ...] = (
    ("command_allowlist",),
    ("approvals", "rules"),
    ("security", "boundary_writable"),
    ("security", "egress_allow"),
)
"""Lists of which each entry allows more."""
RULES: tuple[Parts, ...] = (("approvals", "effects"),)  #: Rules by name.
RULE_RANKS = {"deny": 0, "ask": 1, "allow": 2}
HOOKS = "hooks"  #: The approved shell hooks, as texts of event and command.
KEYS: tuple[Parts, ...] = (*RANKS, *LISTS, *RULES)

NEXT_STEP = "`hermes approvals confirm`"

Policy = dict[str, Any]  #: Values by dotted key.
_File = dict[str, bool | str | list[Any] | dict[str, str]]
_EXAMPLES: dict[str, object] = {
    HOOKS: [],
    **{".".join(parts): [] for parts in LISTS},
    **{".".join(parts): {} for parts in RULES},
    **{".".join(parts): next(iter(ranks)) for parts, ranks in RANKS.items()},
}
"""A value of the right type for each key."""


def read_policy(root: Path) -> Policy | None:
    """Return the confirmed policy of a home; None if there is none yet.

    A damaged file counts as a policy of defaults.
    """
    try:
        held: Policy = msgspec.json.decode((root / POLICY).read_bytes(), type=_File)
        if all(isinstance(held.get(key, each), type(each)) for key, each in _EXAMPLES.items()):
            return held
        problem: Exception | str = "it does not have the right form"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        problem = error
    log.warning("the confirmed policy is damaged, so the defaults hold: %s", problem)
    return {".".join(parts): find(Settings(), parts) for parts in KEYS} | {HOOKS: []}


def clamp(parts: Parts, value: Any, confirmed: Any) -> Any:
    """Return the value that holds: `value` as far as it is not weaker than `confirmed`."""
    if parts in LISTS:
        return tuple(entry for entry in value if _plain(entry) in confirmed)
    if parts in RULES:
        names = dict.fromkeys((*value, *confirmed))
        rules = {name: _stricter(value.get(name), confirmed.get(name)) for name in names}
        return {name: rule for name, rule in rules.items() if rule is not None}
    ranks = RANKS[parts]
    return value if ranks.get(value, 0) <= ranks.get(confirmed, 0) else confirmed


def _stricter(rule: str | None, confirmed: str | None) -> str | None:
    """Return the rule that holds for one name; None for no rule.

    Without a rule the default of a tool holds. It may be stricter than `allow` and weaker than the
    others.
    """
    if confirmed is None:
        return None if rule == "allow" else rule
    if rule is None:
        return None if confirmed == "allow" else confirmed
    return min(rule, confirmed, key=lambda each: RULE_RANKS.get(each, 1))


def describe(unconfirmed: Iterable[str]) -> str:
    """Return the line that says which keys have no effect."""
    keys = " and ".join(unconfirmed)
    return f"not in effect: {keys} would allow more than you confirmed; {NEXT_STEP} shows what"


def store(root: Path, policy: Mapping[str, Any], approved_hooks: Iterable[str]) -> None:
    """Store the policy in effect at the start of an agent, if it differs from the confirmed one.

    `policy` is not weaker than the confirmed one. Of the approved hooks, the confirmed ones are
    kept; all of them in a home without a record. Raises `ConfigError`.
    """
    held = read_policy(root)
    before = None if held is None else held.get(HOOKS)
    hooks = [hook for hook in approved_hooks if before is None or hook in before]
    if _plain({**policy, HOOKS: hooks}) != held:
        with _locked(root):
            _write(root, {**policy, HOOKS: hooks})


def confirm(root: Path, values: Mapping[str, Any]) -> None:
    """Let these values take effect: a person agreed. Raises `ConfigError`.

    Does nothing in a home without a record, whose first start stores what it finds.
    """
    if read_policy(root) is not None:
        with _locked(root):
            _write(root, {**(read_policy(root) or {}), **values})


def confirm_entry(root: Path, key: str, entry: object) -> None:
    """Do the same for one entry of a list. Raises `ConfigError`."""
    if read_policy(root) is not None:
        with _locked(root):
            held, new = read_policy(root) or {}, _plain(entry)
            _write(root, {**held, key: [*(each for each in held.get(key, ()) if each != new), new]})


def is_confirmed_hook(root: Path, hook: str) -> bool:
    held = read_policy(root)
    return held is None or hook in held.get(HOOKS, (hook,))


def _plain(value: object) -> Any:
    """Return a value as it is after it was stored and read."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _locked(root: Path) -> AbstractContextManager[None]:
    return change_lock(root / FOLDER / ".policy.lock", LOCK_SECONDS, "the confirmed policy")


def _write(root: Path, policy: Policy) -> None:
    data = msgspec.json.format(msgspec.json.encode(policy), indent=2) + b"\n"
    try:
        write_own(root, root / POLICY, data, mode=0o600)
    except OSError as error:
        raise unusable(root / POLICY, error) from error
