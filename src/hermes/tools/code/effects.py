"""What stands against something a running script is about to do.

The same rules as for the tools: a command line is examined as the terminal's, a path as that of a
file tool.
"""

import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from hermes.core.tool import Concern
from hermes.security.paths import (
    CREDENTIAL_STORES,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    Guard,
    below,
)
from hermes.security.reading import examine_command, one_concern

SHELL = ("/bin/sh", "-c")
"""How Python starts a command line: what follows is judged as one."""

Effect = dict[str, Any]


def protected_places(guard: Guard) -> list[str]:
    """Where a script must ask also inside of the workspace, and before it reads."""
    in_home = [str(guard.home / name) for name in (*CREDENTIAL_STORES, *STARTUP_FILES)]
    return [*map(str, guard.own), *in_home, *SYSTEM_CREDENTIALS]


def concern_of(effect: Effect, guard: Guard) -> Concern | None:
    """None when it may happen."""
    judge = _JUDGES.get(str(effect.get("effect")))
    if judge is None:
        return Concern("unknown effect", str(effect.get("effect")), "it cannot be judged")
    concern = judge(effect, guard)
    if concern is None:
        return None
    return msgspec.structs.replace(
        concern, subject=_valid(concern.subject), reason=_valid(concern.reason)
    )


def _valid(text: str) -> str:
    """Names of files may hold bytes that are no text; people and events need text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _command(effect: Effect, guard: Guard) -> Concern | None:
    words = [str(word) for word in effect["words"]]
    text = str(effect["text"])
    if words:
        text = words[2] if tuple(words[:2]) == SHELL and len(words) > 2 else shlex.join(words)
    return one_concern(examine_command(text, guard, str(effect["folder"])))


def _write(effect: Effect, guard: Guard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if effect["device"]:
        return Concern("disk wipe", path, f"{real} is a device", refused=True)
    if effect["goes"] and _holds_own(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    return guard.writing(path, real)


def _tree(effect: Effect, guard: Guard) -> Concern | None:
    path, real = str(effect["path"]), str(effect["real"])
    if _holds_own(real, guard):
        return Concern("protected file", path, f"{real} holds Hermes' own files", refused=True)
    concerns = examine_command(shlex.join(["rm", "-rf", "--", real]), guard, "/")
    written = guard.writing(path, real)
    concerns += [written] if written else []
    return one_concern(sorted(concerns, key=lambda concern: not concern.refused))


def _read(effect: Effect, guard: Guard) -> Concern | None:
    return guard.reading(str(effect["path"]), str(effect["real"]))


def _memory(effect: Effect, _guard: Guard) -> Concern | None:
    path = str(effect["path"])
    return Concern("credential access", path, f"{path} holds what another program keeps to itself")


def _native(effect: Effect, _guard: Guard) -> Concern | None:
    what = str(effect["what"])
    return Concern("native code", what, f"the script uses {what}; what that does cannot be seen")


def _hook(_effect: Effect, _guard: Guard) -> Concern | None:
    return Concern("native code", "sys.addaudithook", "the script adds an audit hook of its own")


def _holds_own(real: str, guard: Guard) -> bool:
    return any(below(guard.real(str(root), "/"), real) for root in guard.own)


_JUDGES: dict[str, Callable[[Effect, Guard], Concern | None]] = {
    "command": _command,
    "write": _write,
    "tree": _tree,
    "read": _read,
    "memory": _memory,
    "native": _native,
    "hook": _hook,
}
