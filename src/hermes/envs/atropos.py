"""A client for the HTTP API of Atropos, a queue of rollouts between environments and a trainer.

The trainer registers first and takes batches. An environment registers, sends groups of rollouts,
and collects no more than the trainer will soon take.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.util.concurrency import SystemClock
from hermes.util.http import HttpError, LateClient, fetch

PROMPT_MASK = -100  #: In `masks`, stands for a token that the model did not sample.
PROMPT_LOGPROB = 1.0  #: In `inference_logprobs`, likewise: no probability has this logarithm.
WAIT_SECONDS = 2.0  #: Between two attempts to register before the trainer has started.
ATTEMPTS = 6  #: For a request that fails without an answer, or with an error of the server.
REQUEST_SECONDS = 120.0
MAX_ANSWER_BYTES = 16_000_000

GROUP_FIELDS = frozenset({
    "tokens", "masks", "scores", "advantages", "ref_logprobs", "inference_logprobs", "messages",
    "generation_params", "overrides", "group_overrides", "images", "env_id",
})  # fmt: skip
"""The fields of a group that the API knows. Others are not sent."""

Form = TypeVar("Form")


class AtroposError(HermesError):
    """The API cannot be reached, or refused a request."""


class AtroposRegistration(msgspec.Struct, frozen=True):
    """The answer to a registration. Without an `env_id` the trainer has not started yet."""

    status: str = ""
    env_id: int | None = None
    wandb_name: str = ""
    checkpoint_dir: str | None = ""
    starting_step: int = 0
    checkpoint_interval: int = -1
    num_steps: int = -1  #: Steps of the trainer.


class TrainerInfo(msgspec.Struct, frozen=True):
    batch_size: int = -1  #: Rollouts in a batch; -1 if no trainer has registered.
    max_token_len: int = -1


class AtroposStatus(msgspec.Struct, frozen=True):
    current_step: int = 0
    queue_size: int = 0  #: Groups that wait for the trainer.
    env_weight: float = 1.0


class AtroposClient:
    """One environment at the API; an async context manager that disconnects at the end.

    A request that got no answer is sent again. The API has no request ids, so a group may then
    arrive twice.
    """

    def __init__(
        self,
        base_url: str,
        clock: Clock | None = None,
        tell: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._clock: Clock = clock or SystemClock()
        self._tell = tell
        self._client = LateClient()
        self.registration = AtroposRegistration()
        self.info = TrainerInfo()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        try:
            if self.registration.env_id is not None:
                await self._call("POST", "/disconnect-env", self._identifier, attempts=1)
        except AtroposError as error:
            self._tell(f"not disconnected: {error}")
        finally:
            await self._client.aclose()

    async def register(
        self,
        name: str,
        *,
        group_size: int,
        max_token_length: int,
        weight: float = 1.0,
        min_batch_allocation: float | None = None,
    ) -> AtroposRegistration:
        """Register the environment, as soon as the trainer has started. Raises `AtroposError`."""
        body = {
            "desired_name": name,
            "group_size": group_size,
            "max_token_length": max_token_length,
            "weight": weight,
            "min_batch_allocation": min_batch_allocation,
        }
        waits = False
        while True:
            answer = await self._call("POST", "/register-env", body, AtroposRegistration)
            if answer.env_id is not None:
                break
            if not waits:
                self._tell(f"{self._base_url}: {answer.status or 'the trainer has not started'}")
                waits = True
            await self._clock.sleep(WAIT_SECONDS)
        self.registration = answer
        self.info = await self._call("GET", "/info", None, TrainerInfo)
        return answer

    async def status(self) -> AtroposStatus:
        return await self._call("GET", "/status-env", self._identifier, AtroposStatus)

    def free_groups(self, status: AtroposStatus, group_size: int, max_batches: int) -> int:
        """Return how many groups may be added until the queue holds `max_batches` batches.

        What waits longer would be of a model that the trainer has left behind.
        """
        if self.info.batch_size <= 0:
            return sys.maxsize
        return max(0, -(-max_batches * self.info.batch_size // group_size) - status.queue_size)

    async def send(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Send scored groups, one as `scored_data`, more as a list. Raises `AtroposError`."""
        own = {"env_id": self.registration.env_id}
        bodies = [
            {name: value for name, value in group.items() if name in GROUP_FIELDS} | own
            for group in groups
        ]
        if len(bodies) == 1:
            await self._call("POST", "/scored_data", bodies[0])
        elif bodies:
            await self._call("POST", "/scored_data_list", bodies)

    @property
    def _identifier(self) -> dict[str, int | None]:
        return {"env_id": self.registration.env_id}

    async def _call(
        self,
        method: str,
        path: str,
        body: Any,
        form: type[Form] = dict,  # type: ignore[assignment]  # for answers that are not read
        attempts: int = ATTEMPTS,
    ) -> Form:
        url, attempt = self._base_url + path, 1
        while True:
            problem, passes = "", True
            try:
                content: Any = {} if body is None else {"json": body}
                answer = await fetch(
                    self._client,
                    method,
                    url,
                    seconds=REQUEST_SECONDS,
                    max_bytes=MAX_ANSWER_BYTES,
                    **content,
                )
            except HttpError as error:
                problem, passes = f"{url} {error}", error.kind != "address"
            else:
                if answer.status < 300:
                    return _decode(url, answer.body, form)
                reason = answer.body[:500].decode("utf-8", "replace").strip()
                problem = f"{url} answered with status {answer.status}: {reason}"
                passes = answer.status >= 500
            attempt += 1
            if not passes or attempt > attempts:
                raise AtroposError(problem, hint="the API of Atropos is started with: run-api")
            self._tell(f"{problem}; attempt {attempt} of {attempts} follows")
            await self._clock.sleep(min(2 ** (attempt - 2), 30))


def _decode(url: str, data: bytes, form: type[Form]) -> Form:
    try:
        return msgspec.json.decode(data, type=form)
    except msgspec.DecodeError as error:
        raise AtroposError(f"{url} sent an answer of another form: {error}") from error
