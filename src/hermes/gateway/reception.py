"""Where messages come in: who may not is sent away, the rest is kept before anything else."""

import logging
from typing import Any

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.platforms import Role
from hermes.core.errors import StoreError
from hermes.core.hooks import HookName
from hermes.core.ports import Clock
from hermes.gateway.directory import Directory
from hermes.gateway.door.doorman import Doorman
from hermes.gateway.floor import Floor
from hermes.gateway.house import Counters, House
from hermes.gateway.platforms.kit.contract import MessageEvent, Target
from hermes.gateway.platforms.kit.inbound import GroupRules, is_for_us, rules_from
from hermes.gateway.session_keys import build_session_key
from hermes.store.records import InboxItem
from hermes.util.text import clean

log = logging.getLogger(__name__)


class Reception:
    def __init__(
        self,
        settings: Settings,
        house: House,
        floor: Floor,
        doorman: Doorman,
        directory: Directory,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._settings, self._house, self._floor = settings, house, floor
        self._doorman, self._directory = doorman, directory
        self._counters, self._clock = counters, clock
        self._rules: dict[str, GroupRules] = {}

    async def receive(self, event: MessageEvent) -> bool:
        """`platforms.base.Receive`."""
        try:
            return await self._receive(sound(event))
        except StoreError as error:
            log.error("a message of %s cannot be kept now: %s", event.source.platform, error)
            return False

    async def _receive(self, event: MessageEvent) -> bool:
        source = event.source
        if self._house.closed:
            return False
        if not self._is_for_us(event):
            return True
        admission = await self._doorman.admit(source, event.text)
        if not admission.allowed or admission.role is None:
            log.info("%s: %s", source.platform, admission.why)
            if admission.reply:
                target = Target(source.platform, source.chat_id, source.thread_id, source.account)
                key = f"door:{source.platform}:{source.account}:{event.message_id}"
                await self._house.say_now(target, admission.reply, "notice", key=key)
            return True
        if event.button:
            await self._floor.pressed(event, admission.role)
            return True
        changed = await self._plugins_agree(event)
        if changed is None or not (changed.text.strip() or changed.media or changed.reply_to_text):
            return True  # who only names us, under what somebody said, asks about that
        return await self._keep(changed, admission.role)

    async def _plugins_agree(self, event: MessageEvent) -> MessageEvent | None:
        """The message as plugins let it pass; None when one skips it. The first that does anything
        decides."""
        hooks, name = self._house.app.extensions.hooks, HookName.PRE_GATEWAY_DISPATCH
        if not hooks.listens(name):
            return event
        store = self._house.store
        for said in await hooks.fire(name, event=event, gateway=self._house, session_store=store):
            match said:
                case {"action": "skip"}:
                    reason = said.get("reason", "")
                    log.info("%s: a plugin skips a message: %s", event.source.platform, reason)
                    return None
                case {"action": "rewrite", "text": str(text)}:
                    return msgspec.structs.replace(event, text=text)
                case {"action": "allow"}:
                    return event
                case _:
                    continue
        return event

    def _is_for_us(self, event: MessageEvent) -> bool:
        platform = event.source.platform
        if self._house.manifests[platform].knows_groups:
            return True
        if platform not in self._rules:
            self._rules[platform] = rules_from(getattr(self._settings, platform, None))
        return is_for_us(event, self._rules[platform])

    async def _keep(self, event: MessageEvent, role: Role) -> bool:
        source = event.source
        settings = self._settings
        key = build_session_key(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        kept = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        row_id = await self._house.store.inbox.receive(kept, self._clock.now().timestamp())
        if row_id is None:
            log.info("%s: a message came twice", source.platform)
            await self._floor.again(kept, event, role)
            return True
        self._counters.received(source.platform)
        self._directory.saw(source)
        self._floor.arrived(kept, row_id, event, role)
        return True


def sound(event: MessageEvent) -> MessageEvent:
    """The message without what no JSON can hold, such as half a character."""
    try:
        msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_cleaned(msgspec.to_builtins(event)), MessageEvent)
    return event


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(each) for name, each in value.items()}
        case list() | tuple():
            return [_cleaned(each) for each in value]
    return value
