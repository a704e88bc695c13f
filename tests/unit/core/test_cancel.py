"""The token that stops a turn."""

import asyncio
import inspect

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted

FOREVER = 3600


def soon(action) -> None:
    """Runs `action` once the current task waits."""
    asyncio.get_running_loop().call_soon(action)


async def until_waiting() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_work_that_finishes_gives_its_result():
    token = CancelToken()
    assert await token.guard(asyncio.sleep(0, "done")) == "done"
    assert not token.cancelled


async def test_setting_the_token_interrupts_the_wait_with_its_reason():
    token = CancelToken()
    soon(lambda: token.cancel("enough"))
    with pytest.raises(Interrupted, match="enough"):
        await token.guard(asyncio.sleep(FOREVER))
    assert token.cancelled


async def test_task_continues_normally_after_an_interruption():
    token = CancelToken()
    soon(token.cancel)
    with pytest.raises(Interrupted):
        await token.guard(asyncio.sleep(FOREVER))
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_a_set_token_lets_nothing_begin():
    token = CancelToken()
    token.cancel("first")
    token.cancel("second")
    with pytest.raises(Interrupted, match="first"):
        token.check()
    with pytest.raises(Interrupted, match="first"), token.scope():
        raise AssertionError("the scope was entered")


async def test_every_task_under_the_token_is_stopped():
    token = CancelToken()
    tasks = [asyncio.create_task(token.guard(asyncio.sleep(FOREVER))) for _ in range(3)]
    await until_waiting()
    token.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Interrupted] * 3


async def test_nested_scopes_of_one_token_are_left_together():
    token, left = CancelToken(), []
    soon(token.cancel)
    with pytest.raises(Interrupted), token.scope():
        try:
            with token.scope():
                await asyncio.sleep(FOREVER)
        finally:
            left.append("inner")
    assert left == ["inner"]
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_an_inner_token_leaves_the_outer_scope_running():
    outer, inner = CancelToken(), CancelToken()
    soon(inner.cancel)
    with outer.scope():
        with pytest.raises(Interrupted):
            await inner.guard(asyncio.sleep(FOREVER))
        await asyncio.sleep(0)
    assert not outer.cancelled


async def test_an_outer_token_passes_through_the_inner_scope():
    outer, inner = CancelToken(), CancelToken()
    soon(lambda: outer.cancel("outer"))
    with pytest.raises(Interrupted, match="outer"), outer.scope(), inner.scope():
        await asyncio.sleep(FOREVER)
    assert asyncio.current_task().cancelling() == 0


async def test_cancelling_the_task_itself_stays_a_cancellation():
    token = CancelToken()
    task = asyncio.create_task(token.guard(asyncio.sleep(FOREVER)))
    await until_waiting()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not token.cancelled


@pytest.mark.parametrize("token_first", [True, False])
async def test_a_cancelled_task_is_cancelled_even_when_the_token_is_set_too(token_first):
    token = CancelToken()
    task = asyncio.create_task(token.guard(asyncio.sleep(FOREVER)))
    await until_waiting()
    actions = [token.cancel, task.cancel]
    for action in actions if token_first else reversed(actions):
        action()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_is_not_hidden():
    token = CancelToken()

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await token.guard(fail())
    token.cancel()
    await asyncio.sleep(0)


async def test_a_task_that_left_its_scope_is_not_touched():
    token = CancelToken()
    await token.guard(asyncio.sleep(0))
    token.cancel()
    await asyncio.sleep(0)


async def test_work_may_clean_up_before_it_stops():
    token, cleaned = CancelToken(), []

    async def work() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    soon(token.cancel)
    with pytest.raises(Interrupted):
        await token.guard(work())
    assert cleaned == [True]


class Numbers:
    """An endless stream that knows whether it was closed."""

    def __init__(self, last: int = 1000) -> None:
        self.last, self.closed = last, False

    async def stream(self):
        try:
            for number in range(self.last):
                await asyncio.sleep(0)
                yield number
            await asyncio.sleep(FOREVER)
        finally:
            self.closed = True


async def test_a_stream_ends_when_the_token_is_set_and_is_closed():
    token, numbers, seen = CancelToken(), Numbers(), []
    with pytest.raises(Interrupted):
        async for number in token.iterate(numbers.stream()):
            seen.append(number)
            if number == 2:
                token.cancel()
    assert seen == [0, 1, 2]
    assert numbers.closed


async def test_a_stream_that_waits_is_interrupted():
    token, numbers, seen = CancelToken(), Numbers(last=2), []
    asyncio.get_running_loop().call_later(0.01, token.cancel)
    with pytest.raises(Interrupted):
        async for number in token.iterate(numbers.stream()):
            seen.append(number)  # noqa: PERF401 - what came before the interruption counts
    assert seen == [0, 1]
    assert numbers.closed


async def test_a_stream_left_early_is_closed():
    token, numbers = CancelToken(), Numbers()
    stream = token.iterate(numbers.stream())
    assert await anext(stream) == 0
    await stream.aclose()
    assert numbers.closed


async def test_a_stream_that_ends_by_itself_just_ends():
    async def two():
        yield 1
        yield 2

    assert [item async for item in CancelToken().iterate(two())] == [1, 2]


async def test_guarded_work_that_could_not_begin_is_closed():
    token, work = CancelToken(), asyncio.sleep(FOREVER)
    token.cancel()
    with pytest.raises(Interrupted):
        await token.guard(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
