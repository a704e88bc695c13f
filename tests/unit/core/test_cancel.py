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


async def test_work_that_finishes_gives_its_result_and_is_left_alone_afterwards():
    token = CancelToken()
    assert await token.guard(asyncio.sleep(0, "done")) == "done"
    assert not token.cancelled
    token.cancel()
    await asyncio.sleep(0)


async def test_setting_the_token_interrupts_the_wait_and_the_task_continues():
    token = CancelToken()
    soon(lambda: token.cancel("enough"))
    with pytest.raises(Interrupted, match="enough"):
        await token.guard(asyncio.sleep(FOREVER))
    assert token.cancelled
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


async def test_work_that_sets_the_token_itself_ends_at_its_next_wait():
    token = CancelToken()

    async def work(wait: bool) -> str:
        token.cancel()
        if wait:
            await asyncio.sleep(FOREVER)
        return "done"

    with pytest.raises(Interrupted):
        await token.guard(work(wait=True))
    token = CancelToken()
    assert await token.guard(work(wait=False)) == "done"
    await asyncio.sleep(0)  # nothing is cancelled outside of the guard
    with pytest.raises(Interrupted):
        token.check()


async def test_guarded_work_that_could_not_begin_is_closed():
    token, work = CancelToken(), asyncio.sleep(FOREVER)
    token.cancel()
    with pytest.raises(Interrupted):
        await token.guard(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
