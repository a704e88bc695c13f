"""`/pair` in a chat: an owner invites somebody, or approves who asked."""

from hermes.core.errors import HermesError
from hermes.gateway.door.pairing import PairingStore
from hermes.gateway.platforms.kit.contract import SessionSource
from hermes.util.plain import plain_line

USAGE = (
    "/pair makes a code that lets in whoever sends it to me.\n"
    "/pair CODE lets in who got this code from me; /pair PLATFORM CODE on another platform.\n"
    "/pair list shows who waits."
)


def pair_command(store: PairingStore, source: SessionSource, words: str) -> str:
    """What to answer to `/pair WORDS`. Whether the user may is for `roles.may` to say."""
    if source.chat_type not in ("dm", "private"):
        return "Codes are not for everybody to see: use /pair in a private chat with me."
    try:
        return _done(store, source.platform, words.split())
    except HermesError as error:
        return f"{error}. {error.hint}".rstrip(". ") + "."


def _done(store: PairingStore, platform: str, words: list[str]) -> str:
    match words:
        case []:
            code = store.invite(platform)
            return (
                f"{code} lets in the first who sends it to me on {platform}, alone in a private"
                " message, within an hour."
            )
        case ["list"]:
            waiting = [
                f"{plain_line(each.user_name) or 'somebody'} ({plain_line(each.user_id)})"
                for each in store.pending(platform)
            ]
            return f"Waiting on {platform}: {', '.join(waiting) or 'nobody'}."
        case [code]:
            return _approved(store, platform, code)
        case [other, code]:
            return _approved(store, other.lower(), code)
        case _:
            return USAGE


def _approved(store: PairingStore, platform: str, code: str) -> str:
    user, approved = store.approve(platform, code)
    name = plain_line(approved.user_name)
    return f"{name or 'User'} ({plain_line(user)}) may talk to me on {platform} now."
