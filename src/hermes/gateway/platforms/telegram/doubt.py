"""Whether a message in doubt is there.

Telegram has no key of ours for a message and no way to read a chat. What it has are numbers that
only grow, and `editMessageReplyMarkup`: asked to give a message the buttons it has anyway, it
changes nothing and says "message is not modified" for a message of ours, "message can't be edited"
for one of somebody else, and "message to edit not found" for a number that is no message of this
chat.

1. The journal says that Telegram answered us: the message is there, under that name.
2. The journal says that it was refused, or never left: it is not there.
3. Else every number is asked about, from the newest known before the sending up to the newest known
   now, and on until `QUIET` numbers in a row are no message of the chat. First all updates that
   wait for us are taken in, so that the newest known is the newest there is; and `settle` seconds
   must have passed since the sending, so that a request that is still being worked on has come to
   its end. Our messages that the journal knows do not count.
   - None of ours: it is not there, and may be sent again.
   - As many as the messages of the chat in doubt: all of them are there, in their order.
   - Any other count: nobody knows (`Unknowable`), and it is not sent again.

Why sending again is safe after 3: a message that is there has a number above the newest known
before its sending. It could be overlooked only behind `QUIET` numbers that we never saw and that
are no messages of this chat: in a supergroup that many messages deleted in a row, in a private
chat that many messages in basic groups that hide them from the bot, all between our last look and
the sending. More than `MOST` numbers are not asked about: `Unknowable`.

In a channel the bot may edit the posts of others, so they look like ours: nothing is asked there
(`Unknowable`).

A message of ours that has other buttons than those asked with is changed by the question. That
needs a second message in doubt in the same chat, with other buttons, and when the journal has one
nothing is asked (`Unknowable`); only after the journal was lost can it happen.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

from telegram import Bot
from telegram.constants import ChatType
from telegram.error import BadRequest, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.events import Button, Outgoing, Target
from hermes.gateway.platforms.base import SendLater, Unknowable
from hermes.gateway.platforms.telegram.chats import Chats
from hermes.gateway.platforms.telegram.failures import TooOften, of_connecting, says
from hermes.gateway.platforms.telegram.journal import Journal, Sending
from hermes.gateway.platforms.telegram.naming import message_name, number_of
from hermes.gateway.platforms.telegram.parts import keyboard, markup_of
from hermes.gateway.platforms.telegram.sending import NOT_MODIFIED, Sender
from hermes.store.records import OutboxRow

QUIET = 40
MOST = 400
LONG_AGO = 3600.0
"""Seconds after which a message in doubt is below what was seen since."""
LONGEST_PAUSE = 20.0
"""Seconds that Telegram may have us wait between two questions."""


class Owner(Enum):
    OURS = "a message of ours, with these buttons"
    CHANGED = "a message of ours that had other buttons"
    OTHERS = "somebody else's message"
    NOBODY = "no message of this chat"


class Doubts:
    def __init__(
        self,
        bot: Bot,
        journal: Journal,
        chats: Chats,
        sender: Sender,
        clock: Clock,
        catch_up: Callable[[], Awaitable[None]],
        settle: float,
    ) -> None:
        """`catch_up` returns when no update waits for us; it raises `NotConnected`."""
        self._bot, self._journal, self._sender, self._clock = bot, journal, sender, clock
        self._chats, self._catch_up, self._settle = chats, catch_up, settle

    async def find(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        chat_id = await self._chats.find(target)
        async with self._sender.quiet(chat_id):
            sending = self._journal.sends.get(row.key)
            if sending is not None and not sending.open:
                return _name(sending)
            if sending is not None and sending.begun.chat_id != chat_id:
                raise Unknowable("the Telegram group became a supergroup while we wrote to it")
            after = _after(row, sending)
            doubts = self._doubts(chat_id, sending, message, after)
            after = min([after, *(each.begun.after for each in doubts if each is not sending)])
            await self._wait(sending)
            await self._catch_up()
            buttons = message.buttons if sending is None or sending.begun.markup else ()
            if await self._is_channel(chat_id):
                raise Unknowable("in a Telegram channel we may edit what others posted too")
            found = await self._ours(chat_id, after, buttons)
            return self._decide(row.key, sending, doubts, found)

    def _doubts(
        self, chat_id: int, sending: Sending | None, message: Outgoing, after: int
    ) -> list[Sending]:
        """Messages of the chat in doubt, this one among them, without those that nobody could ever
        tell about and that have lower numbers."""
        now = self._clock.now().timestamp()
        doubts = [
            each
            for each in self._journal.doubts(chat_id)
            if each is sending or each.begun.after >= after or each.begun.at > now - LONG_AGO
        ]
        markup = sending.begun.markup if sending else markup_of(message.buttons)
        if any(each.begun.markup != markup for each in doubts):
            raise Unknowable("two messages with different buttons are in doubt in one chat")
        return doubts

    async def _wait(self, sending: Sending | None) -> None:
        if sending is not None:
            age = self._clock.now().timestamp() - sending.begun.at
            if 0 <= age < self._settle:
                await self._clock.sleep(self._settle - age)

    async def _ours(self, chat_id: int, after: int, buttons: Sequence[Button]) -> list[int]:
        """Numbers of our messages that the journal does not have."""
        newest, known = self._journal.after(chat_id), self._journal.ours(chat_id)
        found: list[int] = []
        quiet, number = 0, after
        while quiet < QUIET:
            number += 1
            if number - after > MOST:
                raise Unknowable("too much was written since to find the message")
            owner = Owner.OTHERS if number in known else await self._ask(chat_id, number, buttons)
            if owner is Owner.CHANGED:
                raise Unknowable("there is a message of ours that this gateway did not send")
            if owner is Owner.OURS:
                found.append(number)
            quiet = quiet + 1 if owner is Owner.NOBODY and number > newest else 0
        return found

    async def _ask(self, chat_id: int, number: int, buttons: Sequence[Button]) -> Owner:
        markup = keyboard(buttons)
        for _ in range(3):
            try:
                await self._bot.edit_message_reply_markup(chat_id, number, reply_markup=markup)
            except BadRequest as error:
                return _owner(error)
            except TooOften as error:
                if error.seconds > LONGEST_PAUSE:
                    raise SendLater("Telegram wants us to wait", seconds=error.seconds) from None
                await self._clock.sleep(error.seconds)
            except TelegramError as error:
                raise of_connecting(error) from None
            else:
                return Owner.CHANGED
        raise SendLater("Telegram wants us to wait")

    async def _is_channel(self, chat_id: int) -> bool:
        try:
            return (await self._bot.get_chat(chat_id)).type == ChatType.CHANNEL
        except TelegramError as error:
            raise of_connecting(error) from None

    def _decide(
        self, key: str, sending: Sending | None, doubts: list[Sending], found: list[int]
    ) -> str | None:
        if not found:
            for each in doubts:
                self._journal.absent(each.begun.key)
            return None
        if sending is None or len(found) != len(doubts):
            raise Unknowable(f"{len(found)} messages of ours could be the one in doubt")
        for each, number in zip(doubts, found, strict=True):
            self._journal.arrive(each.begun.key, number)
        return _name(self._journal.sends[key])


def _owner(error: BadRequest) -> Owner:
    if says(error, NOT_MODIFIED):
        return Owner.OURS
    if says(error, "message can't be edited"):
        return Owner.OTHERS
    if says(error, "not found", "message_id_invalid"):
        return Owner.NOBODY
    raise Unknowable(f"Telegram does not say whose message it is: {error.message}")


def _name(sending: Sending) -> str | None:
    """None when parts of it are missing: sending it again sends only those."""
    if not sending.complete:
        return None
    return message_name(sending.begun.chat_id, sending.numbers[0])


def _after(row: OutboxRow, sending: Sending | None) -> int:
    numbers = [number_of(row.after_id), sending.begun.after if sending else 0]
    after = max(numbers)
    if not after:
        raise Unknowable("nothing is known about the chat before the message was sent")
    return after
