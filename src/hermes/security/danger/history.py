"""git: history that others have, and work that is not committed."""

import re

from hermes.security.danger.rule import Rule, always, both, operands, says
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import Invocation

_FORCE = frozenset({
    "--force", "--force-with-lease", "--mirror", "--delete", "--prune", "--force-if-includes",
})  # fmt: skip
_ALL = frozenset({".", "./", "*", ":/", ":"})
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")


def subcommand(invocation: Invocation) -> list[str]:
    """The words from the subcommand on: `git -C x -c a=b reset --hard` from `reset`."""
    words = list(invocation.arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _WITH_VALUE else 1]
    return words


def forced_push(invocation: Invocation, _scene: Scene) -> bool:
    words = subcommand(invocation)
    if words[:1] != ["push"]:
        return False
    return any(
        word.partition("=")[0] in _FORCE
        or re.fullmatch(r"-[a-zA-Z]*[fd][a-zA-Z]*", word)
        or re.match(r"\+|:[\w/]", word)
        for word in words[1:]
    )


def loses_work(invocation: Invocation, _scene: Scene) -> bool:
    """Changes that are in no commit would be gone."""
    verb, *rest = subcommand(invocation) or [""]
    everything = not _ALL.isdisjoint(rest)
    forced = any(re.fullmatch(r"-[a-zA-Z]*f|--force|--discard-changes", word) for word in rest)
    match verb:
        case "reset":
            return "--hard" in rest
        case "checkout":
            return forced or everything
        case "restore":
            staged = ("--staged" in rest or "-S" in rest) and "--worktree" not in rest
            return everything and not staged
        case "switch":
            return forced
        case "worktree":
            return forced and rest[:1] == ["remove"]
        case "stash":
            return rest[:1] == ["clear"]
    return False


def unmerged(invocation: Invocation, _scene: Scene) -> bool:
    """`git branch -D` of what another program lists."""
    words = subcommand(invocation)
    deletes = words[:1] == ["branch"] and bool({"-D", "-d", "--delete"} & set(words))
    return deletes and "xargs" in invocation.via and bool(operands(invocation))


PUSH = "overwrites or deletes history on the server"
REWRITES = (
    r"^(-\S+\s+(\S+\s+)?)*(filter-(branch|repo)\b|reflog\s+(expire|delete)\b|update-ref\s+.*-d\b"
    r"|gc\s.*--prune=(now|all)|prune\b.*--expire|replace\s)"
)
KIND, LOST = "history rewriting", "throws away changes that are in no commit"
RULES = (
    Rule(KIND, PUSH, "git", forced_push),
    Rule(KIND, "rewrites the whole history", "git", says(REWRITES)),
    Rule(KIND, "rewrites the whole history", "bfg git-filter-repo git-filter-branch", always),
    Rule(KIND, PUSH, "hg jj", says(r"\bstrip\b|\bpush\b.*(-f\b|--force|--deleted)")),
    Rule("uncommitted work", LOST, "git", loses_work),
    Rule("uncommitted work", "deletes many branches at once", "git", unmerged),
    Rule(
        "uncommitted work",
        LOST,
        "hg svn",
        both(
            says(r"\b(revert|update|purge|cleanup)\b"), says(r"--all|-R|--recursive|-C\b|--remove")
        ),
    ),
)
