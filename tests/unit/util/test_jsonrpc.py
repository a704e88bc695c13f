import asyncio
import json
from typing import Any

import pytest

from hermes.util.jsonrpc import JsonRpcConnection, RpcError, RpcResultMissing, decode


class Wire:
    """The other side: what was sent to it, and answers from it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.notifications: list[tuple[str, Any]] = []
        self.rpc = JsonRpcConnection[str](
            self._send,
            {"double": self._double},
            lambda method, params: self.notifications.append((method, params)),
            cancel_method="cancelled",
            progress_method="progress",
        )

    async def _send(self, data: bytes, _number: int | None) -> None:
        self.sent.append(json.loads(data))

    async def _double(self, params: dict[str, Any], _origin: int | None) -> Any:
        if "value" not in params:
            raise RpcError("no value", 7)
        return 2 * params["value"]

    async def receive(self, **message: Any) -> None:
        for each in decode(json.dumps({"jsonrpc": "2.0", **message})):
            if not self.rpc.settle(each) and each.method:
                self.rpc.dispatch(each)
        for _ in range(3):
            await asyncio.sleep(0)


async def start(wire: Wire, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.create_task(wire.rpc.request("ask", {"a": 1}, **options))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize(
    ("line", "method", "result"),
    [
        (b'{"id": 1, "result": 2}', "", 2),
        (b'{"id": 1, "result": NaN, "error": null}', "", "unset"),
        (b'{"method": "m\xff"}', "m\ufffd", "unset"),
        (b"listening on port 3", "", "listening on port 3"),
    ],
)
def test_lines_are_decoded_as_far_as_possible(line: bytes, method: str, result: Any) -> None:
    (message,) = decode(line)
    assert message.method == method
    assert message.result == result or (result == "unset" and not message.result)
    assert decode(b" \n") == []


async def test_an_answer_reaches_its_request() -> None:
    wire = Wire()
    task = await start(wire)
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {"a": 1}}]
    await wire.receive(id=1, result="yes")
    assert await task == "yes"


async def test_errors_and_incomplete_answers_are_raised() -> None:
    wire = Wire()
    first, second = await start(wire), await start(wire)
    await wire.receive(id=1, error={"code": -3, "message": "no", "data": [1]})
    await wire.receive(id=2)
    with pytest.raises(RpcError, match="no") as caught:
        await first
    assert (caught.value.code, caught.value.data) == (-3, [1])
    with pytest.raises(RpcResultMissing):
        await second


async def test_a_cancelled_request_is_announced_and_progress_is_passed_on() -> None:
    wire, seen = Wire(), list[Any]()
    task = await start(wire, on_progress=seen.append, tag="x")
    await wire.receive(method="progress", params={"progressToken": 1, "progress": 3})
    assert [each["progress"] for each in seen] == [3]
    assert wire.rpc.tags() == ["x"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert wire.sent[-1]["method"] == "cancelled"
    assert wire.rpc.tags() == []


async def test_requests_of_the_other_side_are_answered() -> None:
    wire = Wire()
    await wire.receive(id="a", method="double", params={"value": 4})
    await wire.receive(id="b", method="double")
    await wire.receive(id="c", method="unknown")
    await wire.receive(method="news", params={"n": 1})
    answers = {each["id"]: each for each in wire.sent}
    assert answers["a"]["result"] == 8
    assert answers["b"]["error"] == {"code": 7, "message": "no value"}
    assert "not offered" in answers["c"]["error"]["message"]
    assert wire.notifications == [("news", {"n": 1})]


async def test_a_lost_connection_fails_all_requests() -> None:
    wire = Wire()
    task = await start(wire)
    wire.rpc.lost(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await task
    with pytest.raises(ConnectionError):
        await wire.rpc.request("ask", {})
