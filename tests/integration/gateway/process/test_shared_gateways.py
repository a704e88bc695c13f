"""Two gateways with the same platform on one PostgreSQL database."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from bench.gateway_storm import GatewayProcess
from hermes.core.messages import Text
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike
from tests.fakes.local.server import LocalServer
from tests.postgres_server import shared_server

LONG = 100.0


async def until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(LONG):
        while not what():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def two_gateways(
    root: Path, model: ModelServer, busy_input_mode: str
) -> AsyncIterator[LocalServer]:
    """The platform of two gateways that get its messages in turn."""
    platform = LocalServer(shared="one")
    await platform.listen(root / "socket")
    with shared_server().database() as url:
        gateways = [
            GatewayProcess(
                root,
                f"machine-{number}",
                f"model: {{provider: custom, base_url: '{model.url}/v1', default: lab-model}}\n"
                f"store: {{url: '{url}'}}\nsessions: {{auto_title: false}}\n"
                f"display: {{busy_input_mode: {busy_input_mode}}}\n",
            )
            for number in range(2)
        ]
        try:
            for each in gateways:
                await each.start()
            await until(lambda: all(each.is_connected for each in gateways))
            yield platform
        finally:
            for each in gateways:
                await each.end(signal.SIGKILL)
            await platform.close()


async def test_stop_that_another_gateway_receives_ends_the_turn(tmp_path: Path) -> None:
    def answer(request: RecordedRequest) -> StepLike:
        if "go on" in str(request.body["messages"][-1]):
            return "going on"
        return Step((Text("never"),), faults=(Stall(0),))

    def shown(text: str) -> bool:
        return text in [each.text for each in platform.shown("anna")]

    with ModelServer(answer) as model:
        async with two_gateways(tmp_path, model, "queue") as platform:
            platform.say("anna", "anna", "begin")
            await until(lambda: model.calls)
            platform.say("anna", "anna", "/stop")
            await until(lambda: shown("Stopped."))
            platform.say("anna", "anna", "go on")
            await until(lambda: shown("going on"))


async def test_newer_message_that_another_gateway_receives_interrupts_the_turn(
    tmp_path: Path,
) -> None:
    def answer(request: RecordedRequest) -> StepLike:
        text = str(request.body["messages"][-1])
        if "begin" in text and "instead" not in text:
            return Step((Text("never"),), faults=(Stall(0),))
        return "done"

    with ModelServer(answer) as model:
        async with two_gateways(tmp_path, model, "interrupt") as platform:
            platform.say("anna", "anna", "begin")
            await until(lambda: model.calls)
            platform.say("anna", "anna", "do this instead")
            await until(lambda: "done" in [each.text for each in platform.shown("anna")])
