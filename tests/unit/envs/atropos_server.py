"""The API of Atropos on the wire: a queue that an environment fills and a trainer empties."""

import json
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest


class ScoredData(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `scored_data`; a field of another type is refused, as the API does."""

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[float]
    env_id: int | None
    advantages: list[list[float]] | None = None
    ref_logprobs: list[list[float]] | None = None
    inference_logprobs: list[list[float]] | None = None
    messages: list[list[dict[str, Any]]] | None = None
    generation_params: dict[str, Any] | None = None
    overrides: list[dict[str, Any]] | None = None
    group_overrides: dict[str, Any] | None = None
    images: Any = None


class AtroposServer:
    """Serves environments and a trainer, which may also be the test itself: `register`, `batch`."""

    def __init__(self, *, faults: int = 0) -> None:
        """The first `faults` requests are answered with an error of the server."""
        self.requests: list[RecordedRequest] = []
        self.environments: list[dict[str, Any]] = []
        self.groups: list[ScoredData] = []  #: Everything that was sent.
        self.queue: list[ScoredData] = []
        self.disconnected: list[int] = []
        self.step = 0
        self._faults = faults
        self._trainer: dict[str, int] = {}
        self._http = LoopbackServer(self._respond)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.port}"

    def register(self, batch_size: int, num_steps: int = 10, max_token_len: int = 100_000) -> None:
        """What a trainer does with POST /register. From then on environments may register."""
        self._trainer = {
            "batch_size": batch_size,
            "max_token_len": max_token_len,
            "num_steps": num_steps,
        }

    def batch(self) -> list[ScoredData]:
        """Take a batch as GET /batch does, which is a step of the trainer."""
        taken: list[ScoredData] = []
        while self.queue and sum(len(each.tokens) for each in taken) < self._trainer["batch_size"]:
            taken.append(self.queue.pop(0))
        self.step += bool(taken)
        return taken

    def paths(self) -> list[str]:
        return [urlsplit(request.path).path for request in self.requests]

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        if self._faults:
            self._faults -= 1
            return _json(503, {"detail": "starting"})
        try:
            return _json(200, self._answer(request))
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            return _json(422, {"detail": str(error)})

    def _answer(self, request: RecordedRequest) -> Any:
        routes: dict[tuple[str, str], Callable[[Any], Any]] = {
            ("POST", "/register"): self._register,
            ("GET", "/batch"): lambda _body: {"batch": msgspec.to_builtins(self.batch()) or None},
            ("GET", "/status"): lambda _body: self._status(),
            ("GET", "/info"): lambda _body: {
                "batch_size": self._trainer.get("batch_size", -1),
                "max_token_len": self._trainer.get("max_token_len", -1),
            },
            ("POST", "/register-env"): self._register_env,
            ("GET", "/status-env"): lambda body: {
                **self._status(),
                "env_weight": self.environments[body["env_id"]]["weight"],
            },
            ("POST", "/scored_data"): lambda body: self._add([body]),
            ("POST", "/scored_data_list"): self._add,
            ("POST", "/disconnect-env"): self._disconnect,
        }
        return routes[request.method, urlsplit(request.path).path](request.body)

    def _status(self) -> dict[str, int]:
        return {"current_step": self.step, "queue_size": len(self.queue)}

    def _register(self, body: Any) -> dict[str, int]:
        self.register(body["batch_size"], body["num_steps"], body["max_token_len"])
        return {"uuid": 1}

    def _disconnect(self, body: Any) -> dict[str, str]:
        self.disconnected.append(body["env_id"])
        return {"status": "success"}

    def _register_env(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self._trainer:
            return {"status": "wait for trainer to start"}
        for name in ("max_token_length", "desired_name", "weight", "group_size"):
            assert body[name] is not None
        self.environments.append(body)
        return {
            "status": "success",
            "env_id": len(self.environments) - 1,
            "wandb_name": f"{body['desired_name']}_0",
            "checkpoint_dir": "",
            "starting_step": self.step,
            "checkpoint_interval": -1,
            "num_steps": self._trainer["num_steps"],
        }

    def _add(self, body: Any) -> dict[str, Any]:
        groups = msgspec.convert(body, list[ScoredData])
        for group in groups:
            if not len(group.tokens) == len(group.masks) == len(group.scores):
                raise TypeError("the lists of the group differ in length")
        self.groups += groups
        self.queue += groups
        return {"status": "received", "groups_processed": len(groups)}


def _json(status: int, body: Any) -> Outgoing:
    headers = {"content-type": "application/json"}
    return Outgoing(status, headers, (json.dumps(body).encode(),))
