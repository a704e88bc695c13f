"""An album is one message, and no part of it is lost."""

import asyncio

from hermes.sdk.testing.platforms.harness import File, Inbox, connected

PICTURES = tuple(File("image", f"{n}.png", bytes([n] * 10)) for n in range(3))


async def test_an_album_is_one_message_with_its_caption(telegram):
    async with connected(telegram) as (adapter, inbox):
        first = await telegram.says("our holiday", files=PICTURES)
        event = await inbox.take("our holiday")
        assert (event.message_id, len(event.media)) == (first, 3)
        for media, picture in zip(event.media, PICTURES, strict=True):
            fetched = await adapter.fetch(media, 1000)
            assert fetched.size == len(picture.data)
        assert len(inbox.kept) == 1


async def test_words_after_an_album_come_after_it(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("our holiday", files=PICTURES)
        await telegram.says("where was it?")
        await inbox.take("where was it?")
        assert inbox.once() == ["our holiday", "where was it?"]
        assert len(inbox.kept[0].media) == 3


async def test_an_album_survives_a_crash_before_it_was_whole(telegram):
    adapter = telegram.adapter(album=60.0)
    inbox = Inbox()
    await adapter.connect(inbox.receive)
    await telegram.says("our holiday", files=PICTURES)
    while telegram.fake.world.updates:  # all parts are acknowledged
        await asyncio.sleep(0.01)
    await adapter.disconnect()
    assert inbox.offered == []
    async with connected(telegram) as (_, after):
        assert len((await after.take("our holiday")).media) == 3
    assert list((telegram.folder / "state" / "albums").iterdir()) == []


async def test_an_album_that_is_not_kept_is_offered_again(telegram):
    inbox = Inbox()
    inbox.refusals = 1
    async with connected(telegram, inbox):
        await telegram.says("our holiday", files=PICTURES)
        await telegram.says("and then?")
        await inbox.take("and then?")
        assert inbox.once() == ["our holiday", "and then?"]
        assert len({event.message_id for event in inbox.offered}) == 2


async def test_a_part_delivered_again_is_not_a_second_message(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("our holiday", files=PICTURES)
        await inbox.take("our holiday")
        part = {"update_id": 500_002, "message": telegram.chat().messages[101]}
        assert part["message"]["media_group_id"]
        telegram.fake.world.updates.append(part)
        await telegram.says("next")
        await inbox.take("next")
        assert len(inbox.kept) == 2
    async with connected(telegram) as (_, after):
        telegram.fake.world.updates.append(part)
        await telegram.says("after a restart")
        await after.take("after a restart")
        assert len(after.kept) == 1


async def test_two_chats_with_albums_do_not_mix(telegram):
    async with connected(telegram) as (_, inbox):
        await telegram.says("ann's", chat="ann", user="ann", files=PICTURES)
        await telegram.says("bob's", chat="bob", user="bob", files=PICTURES[:2])
        ann, bob = await inbox.take("ann's"), await inbox.take("bob's")
        assert (len(ann.media), len(bob.media)) == (3, 2)
        assert ann.source.chat_id != bob.source.chat_id
