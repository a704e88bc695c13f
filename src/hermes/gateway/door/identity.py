"""Which users a list names. An id is what the platform calls a user, and nothing else: no display
name, no text. Ids are compared as they are; only where a platform itself ignores letter case, the
case of ASCII letters is ignored (other letters have look-alikes that fold into ASCII)."""

from collections.abc import Iterable

EVERYBODY = "*"
CASE_IGNORED = frozenset({"email", "matrix"})

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACE = " \t\r\n"
_TRUE = frozenset({"1", "true", "yes", "on"})


def identity(platform: str, user_id: str) -> str:
    """A user's id in the form it is compared in; "" is nobody."""
    return user_id.translate(_ASCII_LOWER) if platform in CASE_IGNORED else user_id


def listed(platform: str, text: str | None) -> frozenset[str]:
    """The entries of a list such as TELEGRAM_ALLOWED_USERS."""
    words = (word.strip(_SPACE) for word in (text or "").split(","))
    return frozenset(identity(platform, word) for word in words if word)


def switched_on(text: str | None) -> bool:
    """Whether a variable such as TELEGRAM_ALLOW_ALL_USERS says yes. What is no clear yes is no."""
    return (text or "").strip(_SPACE).lower() in _TRUE


def of_platform(platform: str, names: Iterable[str]) -> frozenset[str]:
    """The users of `platform` among entries such as `telegram:12345`."""
    parts = (name.strip(_SPACE).partition(":") for name in names)
    return frozenset(
        identity(platform, user.strip(_SPACE))
        for where, _, user in parts
        if where == platform and user.strip(_SPACE)
    )
