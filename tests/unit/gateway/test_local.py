"""Requests over the connection to a local platform."""

import asyncio
import socket

from hermes.gateway.platforms.local import LocalReply, LocalRequest, SocketChannel, encode_frame


async def test_an_answer_to_a_question_given_up_just_then_does_not_break_the_connection():
    """A turn that ends cancels its typing, whose answer may be there already."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    connection = SocketChannel(reader, writer, lambda _said: asyncio.sleep(0, result=True))
    asking = asyncio.create_task(connection.request(LocalRequest("ping")))
    await asyncio.sleep(0)
    reader.feed_data(encode_frame(LocalReply(1)))  # read before the next line has taken effect
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    again = asyncio.create_task(connection.request(LocalRequest("ping")))
    await asyncio.sleep(0)
    reader.feed_data(encode_frame(LocalReply(2, "pong")))
    assert (await again).value == "pong"
    await connection.close()
    theirs.close()
