"""A message is offered until it is kept."""

from hermes.gateway.platforms.kit.contract import MessageEvent, SessionSource
from hermes.gateway.platforms.kit.inbound import deliver_once, deliver_until_accepted

EVENT = MessageEvent(SessionSource("discord", "c"), "m", "hello")


async def test_it_is_offered_less_and_less_often_until_it_is_kept() -> None:
    answers, pauses = [False, False, False, True], []

    async def receive(event: MessageEvent) -> bool:
        assert event is EVENT
        return answers.pop(0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await deliver_until_accepted(receive, EVENT, sleep, first=1.0, longest=3.0)
    assert answers == []
    assert pauses == [1.0, 2.0, 3.0]


async def test_a_fault_of_the_gateway_is_told_and_means_not_kept(caplog) -> None:
    async def receive(event: MessageEvent) -> bool:
        raise ValueError("a fault")

    assert not await deliver_once(receive, EVENT)
    assert "a fault" in caplog.text
