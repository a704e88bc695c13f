"""Who may talk to the agent, and what each role may do. Access is denied by default."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec

from hermes.app import Surface, resolve_command
from hermes.config.settings import Settings
from hermes.config.settings.platforms import GatewaySettings, Role
from hermes.core.errors import HermesError
from hermes.core.events import ApprovalAsked
from hermes.core.tool import Effect
from hermes.gateway.pairing import (
    EVERYBODY,
    PairingStore,
    identity,
    is_switched_on,
    parse_user_list,
    users_on,
)
from hermes.gateway.platforms.registry import prefix
from hermes.sdk.platforms import PlatformManifest, SessionSource

log = logging.getLogger(__name__)

Variable = Callable[[str], str | None]  #: Returns a variable of .env or of the process.

BOTS = frozenset({"all", "mentions", "true", "1", "yes", "on"})
"""Values of <P>_ALLOW_BOTS that let other programs write, if their ids are authorized too."""
BEHAVIOUR = "unauthorized_dm_behavior"
"""Says `pair` or `ignore`: in the section of a platform, otherwise in general."""
BY_ROLE = "has a role that is on the list"

CODE_REPLY = (
    "You are not authorized yet. Your pairing code is {code}; it is valid for one hour.\n"
    "Ask the owner to run: hermes pairing approve {platform} {code}"
)
WELCOME = "You are now authorized. Send a message to start."


class Admission(msgspec.Struct, frozen=True):
    allowed: bool
    role: Role | None = None  #: The role of an authorized user.
    reply: str = ""  #: The reply to an unauthorized user; "" means none.
    why: str = ""  #: Reason for the log; never shown in the chat.


class Authorizer:
    """Checks the author of each message before it is stored.

    Users of platforms that authenticate them, such as the API server with its key, are members.
    """

    def __init__(
        self,
        settings: Settings,
        variable: Variable,
        pairing: PairingStore,
        manifests: Mapping[str, PlatformManifest],
    ) -> None:
        self._settings, self._variable = settings, variable
        self._pairing, self._manifests = pairing, manifests

    async def admit(self, source: SessionSource, text: str) -> Admission:
        """Decide whether a message may reach the agent. The platform says who wrote it; `text`
        matters only if a stranger may be redeeming an invitation code."""
        if found := self.recognize(source):
            return found
        user = identity(source.platform, source.user_id)
        if not user:
            return Admission(False, why="the platform does not say who wrote it")
        if source.is_bot and not self._bots_welcome(source.platform):
            return Admission(False, why="another program wrote it")
        return await self._stranger(source, user, text)

    def recognize(self, source: SessionSource) -> Admission | None:
        """Return the admission of an authorized user; None for others. Has no side effects."""
        manifest = self._manifests.get(source.platform)
        if manifest is not None and manifest.checks_callers:
            return Admission(True, "member", why="the platform lets in whom it knows")
        user = identity(source.platform, source.user_id)
        if not user or (source.is_bot and not self._bots_welcome(source.platform)):
            return None
        try:
            paired = self._pairing.is_approved(source.platform, user)
        except HermesError as error:
            log.error("paired users of %s are not let in: %s", source.platform, error)
            paired = False
        why = self._reason(source, user, paired=paired)
        if not why:
            return None
        if not source.proven:
            return Admission(True, "guest", why=f"{why}, but the sender is not proven")
        known = paired or why == BY_ROLE
        return Admission(True, self.role(source.platform, user, paired=known), why=why)

    def role(self, platform: str, user: str, *, paired: bool) -> Role:
        """Return the role of an authorized user; `user` is an `identity`."""
        gateway = self._settings.gateway
        owners = users_on(platform, gateway.owners)
        if user in owners:
            return "owner"
        for name, role in gateway.roles.items():
            if user in users_on(platform, (name,)):
                return role
        named = self._allowlist(platform) - {EVERYBODY}
        if user in named:
            return "owner" if len(named) == 1 and not owners else "member"
        if paired or user in self._everywhere(platform) - {EVERYBODY}:
            return "member"
        return gateway.open_role

    def _reason(self, source: SessionSource, user: str, *, paired: bool) -> str:
        """Return why a user is authorized; "" if there is no reason."""
        platform = source.platform
        allowed = self._allowlist(platform)
        roles = parse_user_list(platform, self._setting(platform, "ALLOWED_ROLES"))
        everywhere = self._everywhere(platform)
        reasons = {
            "everybody on this platform": is_switched_on(
                self._setting(platform, "ALLOW_ALL_USERS")
            ),
            "paired": paired,
            "an owner": user in users_on(platform, self._settings.gateway.owners),
            "on the list": user in allowed or user in everywhere,
            BY_ROLE: bool(roles & set(source.roles)),
            "everybody is on the list": EVERYBODY in allowed or EVERYBODY in everywhere,
            "everybody": is_switched_on(self._variable("GATEWAY_ALLOW_ALL_USERS")),
        }
        return next((why for why, holds in reasons.items() if holds), "")

    async def _stranger(self, source: SessionSource, user: str, text: str) -> Admission:
        platform = source.platform
        unknown = f"{platform} user {user!r} is not let in"
        if source.chat_type not in ("dm", "private") or source.is_bot:
            return Admission(False, why=unknown)
        name, pairing = source.user_name, self._pairing
        try:
            invited = bool(pairing.invitations(platform))
            if invited and await asyncio.to_thread(pairing.redeem, platform, text, user, name):
                return Admission(False, reply=WELCOME, why=f"{unknown}: paired by an invitation")
            sections = (self._settings, self._settings.platforms)
            own = (getattr(getattr(each, platform, None), BEHAVIOUR, None) for each in sections)
            if next(filter(None, own), self._settings.unauthorized_dm_behavior) == "ignore":
                return Admission(False, why=unknown)
            asked = await asyncio.to_thread(pairing.request, platform, user, name)
        except HermesError as error:
            log.error("users of %s cannot be paired: %s", platform, error)
            return Admission(False, why=f"{unknown}: {error}")
        reply = CODE_REPLY.format(code=asked.code, platform=platform) if asked.code else ""
        return Admission(False, reply=reply, why=f"{unknown}: {asked.why or 'got a pairing code'}")

    def _allowlist(self, platform: str) -> frozenset[str]:
        return parse_user_list(platform, self._setting(platform, "ALLOWED_USERS"))

    def _everywhere(self, platform: str) -> frozenset[str]:
        return parse_user_list(platform, self._variable("GATEWAY_ALLOWED_USERS"))

    def _bots_welcome(self, platform: str) -> bool:
        return (self._setting(platform, "ALLOW_BOTS") or "").strip().lower() in BOTS

    def _setting(self, platform: str, ending: str) -> str | None:
        manifest = self._manifests.get(platform)
        name = prefix(manifest) if manifest else platform.upper().replace("-", "_")
        return self._variable(f"{name}_{ending}")


ALL = frozenset({"all", "*"})

TOOLSETS: Mapping[Role, tuple[str, ...]] = {"guest": ("web", "clarify", "todo", "vision")}
"""Toolsets by role. Roles that are missing have all toolsets of the platform."""

OWNERS_ONLY = frozenset({
    "yolo", "restart", "update", "reload", "reload-mcp", "sethome", "debug", "pair", "insights",
    "model --global", "approve always",
})  # fmt: skip
"""An entry with a second word restricts the command only if that word is used with it."""

OWNERS = "Owners are named in the setting `gateway.owners`, as PLATFORM:USER-ID."

GUESTS = frozenset({
    "help", "commands", "status", "stop", "new", "usage", "retry", "undo", "title", "queue",
    "steer", "deny",
})  # fmt: skip

_ALIASES: Mapping[str, str] = {"set-home": "sethome"}


def toolsets_for(role: Role, settings: GatewaySettings) -> tuple[str, ...] | None:
    """Return the only toolsets that a role may use; None for all of the platform.

    Owners may do everything. Members have all tools, but not the commands that affect other users.
    Guests can ask and look things up. `gateway.role_toolsets` and `gateway.role_commands` override
    this.
    """
    wanted = settings.role_toolsets.get(role, TOOLSETS.get(role))
    return None if wanted is None or ALL.intersection(wanted) else wanted


WORKPLACE_TOOLS = frozenset({
    "terminal", "process", "execute_code", "read_file", "search_files", "write_file", "patch",
})  # fmt: skip
"""Tools that act in the workplace of the conversation. Others, such as those of MCP servers and
plugins, act on the machine of the gateway or beyond it."""


def may_approve(role: Role, question: ApprovalAsked, *, isolated: bool) -> bool:
    """Return whether a person may approve a call of their own turn. `isolated` says that the
    workplace is a sandbox or container."""
    inside = isolated and question.tool in WORKPLACE_TOOLS
    inside = inside and question.effect in (Effect.EXECUTE, Effect.WRITE)
    return role == "owner" or (role == "member" and inside)


def may(role: Role, command: str, settings: GatewaySettings) -> str:
    """Return why a role may not use a command; "" if it may. `command` is the whole line, such
    as `/model gpt-5 --global`."""
    name, words = _parse_command(command)
    if not name:
        return ""
    if role in settings.role_commands:
        allowed = frozenset(_normal(each) for each in settings.role_commands[role])
        needed = _restricted_form(name, words) or name
        return "" if ALL & allowed or needed in allowed else _refusal(role, needed)
    if role == "owner":
        return ""
    owners = _restricted_form(name, words) or (name if name in OWNERS_ONLY else "")
    if owners:
        return f"Only an owner may use /{owners}. {OWNERS}"
    return _refusal(role, name) if role == "guest" and name not in GUESTS else ""


def _refusal(role: Role, name: str) -> str:
    return f"A {role} may not use /{name}. /commands lists the available commands."


def _restricted_form(name: str, words: list[str]) -> str:
    """Return the restricted form that a command line uses, such as `model --global`.

    Dashes of any kind count, because phones turn two hyphens into one long dash.
    """
    options = {word.lower().lstrip("-\u2012\u2013\u2014\u2015\u2212") for word in words}
    for each in OWNERS_ONLY:
        command, _, option = each.partition(" ")
        if option and command == name and option.lstrip("-") in options:
            return each
    return ""


def _parse_command(line: str) -> tuple[str, list[str]]:
    """Return the name of a command as the registry knows it, and the words after it.

    The resolved name counts, not the typed one: `/yol@our_bot` is `yolo`.
    """
    words = line.split()
    if not words:
        return "", []
    typed = words[0].lstrip("/").partition("@")[0]
    known = resolve_command(typed, Surface.CHATS)
    return (known.name if known else _normal(typed)), words[1:]


def _normal(text: str) -> str:
    name, space, rest = text.strip().removeprefix("/").lower().partition(" ")
    name = name.replace("_", "-")
    return f"{_ALIASES.get(name, name)}{space}{rest}"
