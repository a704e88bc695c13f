"""Which chat is meant: by its number, or by the public name of a channel or group."""

from telegram import Bot
from telegram.error import TelegramError

from hermes.gateway.events import Target
from hermes.gateway.platforms.base import ChatName, SendLater, SendRefused, SendUnsure
from hermes.gateway.platforms.telegram.failures import of_call
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.gateway.platforms.telegram.reading import CHAT_TYPES


class Chats:
    def __init__(self, bot: Bot, journal: Journal) -> None:
        self._bot, self._journal = bot, journal
        self._named: dict[str, int] = {}
        self.found: dict[str, ChatName] = {}
        """Those that were asked for by name."""

    def known(self, target: Target) -> int | None:
        """Where the chat is now; None for a name that was not asked for yet, or for no chat."""
        number = _number(target.chat_id) or self._named.get(target.chat_id.lower())
        return self._journal.home(number) if number else None

    async def find(self, target: Target) -> int:
        """Where the chat is now. Raises `SendRefused` for what is none, `SendLater` when Telegram
        cannot be asked."""
        if (known := self.known(target)) is not None:
            return known
        name = target.chat_id.lower()
        if not name.startswith("@"):
            raise SendRefused(f"{target.chat_id!r} is no Telegram chat")
        try:
            chat = await self._bot.get_chat(name)
        except TelegramError as error:
            failure = of_call(error)
            if isinstance(failure, SendUnsure):  # a question can be asked again
                raise SendLater(str(failure)) from None
            raise failure from None
        self._named[name] = chat.id
        kind = CHAT_TYPES.get(chat.type, "group")
        self.found[name] = ChatName(str(chat.id), name, kind)
        return self._journal.home(chat.id)


def _number(chat_id: str) -> int | None:
    try:
        return int(chat_id)
    except ValueError:
        return None
