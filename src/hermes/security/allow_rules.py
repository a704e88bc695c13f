"""What an approval for longer than one call covers: scopes, rules, and how a call is matched.

A person who allows a call for the session or permanently chooses a scope. The scope becomes rules
(`config.settings.AllowRule`), and a later call that the rules cover is not asked about again.
"""

import hashlib
import shlex
import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hermes.config.settings import AllowRule
from hermes.core.approval_text import tilde_folder
from hermes.core.events import ApprovalScope
from hermes.core.tool import Concern, Effect
from hermes.security.paths import is_below

COMMAND, ARGUMENTS, FOLDER, EVERYWHERE = "command", "arguments", "folder", "everywhere"
DESTRUCTIVE = frozenset({
    "bulk delete", "credential access", "delete in system folders", "destructive sql", "disk wipe",
    "exfiltration", "format", "history rewriting", "infrastructure", "mass kill", "owner sweep",
    "publishing", "raw copy", "recursive delete", "system files", "traces", "uncommitted work",
})  # fmt: skip
"""Classes whose harm cannot be undone: allowing a whole class needs a second confirmation."""
MAX_STORED_CHARS = 500  #: Of a longer subject a rule stores the digest.
DIGEST = "sha256:"


def concern_classes(concern: Concern) -> tuple[str, ...]:
    """Return every pattern class of a call, in lower case."""
    return (concern.kind.lower(), *(kind.lower() for kind in concern.also))


def effect_class(effect: Effect, tool: str) -> str:
    """Return the pattern class of calls that are judged by the effect of their tool."""
    return f"{effect.value}: {tool}"


# Scopes: what a question offers, and the rules that a chosen scope becomes.


def offered_scopes(tool: str, concern: Concern) -> tuple[ApprovalScope, ...]:
    """Return the scopes that fit a call, narrowest first; none if it can be allowed once only."""
    if concern.once_only:
        return ()
    classes = concern_classes(concern)
    here = f" in {tilde_folder(concern.folder)}" if concern.folder else ""
    if classes == (effect_class(concern.effect, tool),):
        every, below = f"every call of {tool}", f" of sessions{here} and below"
    else:
        every = f"everything of the class {' and '.join(map(repr, classes))}"
        below = f"{here} and below"
    scopes = []
    if concern.reach != "unknown":
        scopes.append(ApprovalScope(COMMAND, f"exactly this{here}"))
    if concern.words and concern.folder:
        what = f"{concern.words[0].rpartition('/')[2]} with exactly these arguments"
        scopes.append(ApprovalScope(ARGUMENTS, f"{what}{here} and below"))
    if concern.folder and concern.reach == "folder":
        scopes.append(ApprovalScope(FOLDER, f"{every}{below}", concern.destructive))
    return (*scopes, ApprovalScope(EVERYWHERE, f"{every}, everywhere", concern.destructive))


def rules_for_scope(scope: str, tool: str, concern: Concern) -> list[AllowRule]:
    """Return the rules of a chosen scope."""
    classes, folder = concern_classes(concern), concern.folder
    single = AllowRule(classes=classes, tool=tool, folder=folder)
    match scope:
        case "command":
            rules = [replace(single, command=stored_text(concern.subject))]
        case "arguments":
            rules = [replace(single, arguments=concern.words)]
        case "folder":
            rules = [AllowRule(classes=(kind,), folder=folder) for kind in classes]
        case "everywhere":
            rules = [AllowRule(classes=(kind,)) for kind in classes]
        case _:
            raise ValueError(f"there is no scope {scope!r}")
    today = time.strftime("%Y-%m-%d")
    return [replace(rule, date=today, reason=concern.reason) for rule in rules]


def stored_text(subject: str) -> str:
    """Return the text by which a rule recognizes exactly this subject."""
    if len(subject) <= MAX_STORED_CHARS and not subject.startswith(DIGEST):
        return subject
    return DIGEST + hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()


def class_rule(kind: str) -> AllowRule:
    """Return the rule that an entry of `command_allowlist` stands for."""
    return AllowRule(classes=(kind.strip().lower(),))


def is_class_rule(rule: AllowRule) -> bool:
    return not rule.command and not rule.arguments


def describe_rule(rule: AllowRule) -> str:
    """Return in words which calls a rule covers."""
    classes = " and ".join(map(repr, rule.classes)) or "nothing"
    if rule.command:
        what = f"{rule.tool}: exactly {rule.command}"
        return f"{what} in {rule.folder}" if rule.folder else what
    if rule.arguments:
        return f"{rule.tool}: {shlex.join(rule.arguments)} in {rule.folder} and below"
    place = f"in {rule.folder} and below" if rule.folder else "everywhere"
    return f"everything of the class {classes} {place}"


# Matching.


def covering_rules(rules: Sequence[AllowRule], tool: str, concern: Concern) -> tuple[int, ...]:
    """Return the positions of the rules that together allow a call; none if they do not.

    A rule for a command or its arguments must name every class of the call: what the same text
    does may have become more dangerous since. Calls that can be allowed once only are never
    covered.
    """
    classes = concern_classes(concern)
    if concern.once_only:
        return ()
    for number, rule in enumerate(rules):
        if not is_class_rule(rule) and _matches_call(rule, tool, concern):
            return (number,)
    found = [_class_rule_for(kind, rules, concern) for kind in classes]
    numbers = [number for number in found if number is not None]
    return tuple(dict.fromkeys(numbers)) if len(numbers) == len(found) else ()


def _matches_call(rule: AllowRule, tool: str, concern: Concern) -> bool:
    if rule.tool != tool or not set(concern_classes(concern)) <= set(_lower(rule.classes)):
        return False
    if rule.command:
        exact = rule.command == stored_text(concern.subject)
        return exact and concern.reach != "unknown" and rule.folder == concern.folder
    if not rule.folder or not concern.words or tuple(rule.arguments) != concern.words:
        return False
    # Where it reaches depends on the folder it starts in, unless it stays inside.
    if concern.reach != "folder":
        return rule.folder == concern.folder
    return is_below(concern.folder, rule.folder)


def _class_rule_for(kind: str, rules: Sequence[AllowRule], concern: Concern) -> int | None:
    for number, rule in enumerate(rules):
        if not is_class_rule(rule) or kind not in _lower(rule.classes):
            continue
        inside = concern.reach == "folder" and is_below(concern.folder, rule.folder)
        if not rule.folder or (concern.folder and inside):
            return number
    return None


def _lower(kinds: Iterable[str]) -> list[str]:
    return [kind.strip().lower() for kind in kinds]
