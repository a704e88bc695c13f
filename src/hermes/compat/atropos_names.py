"""Names of `atroposlib` that environments import: configuration, model servers and groups.

The library itself is not needed. Classes of environments read their settings from annotations, as
they would with pydantic; fields made with `pydantic.Field` are accepted.
"""

import asyncio
import copy
import types
import typing
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from itertools import count, cycle
from typing import Annotated, Any, ClassVar, Self, TypedDict

import msgspec

from hermes.compat.runtime import script_runtime
from hermes.core.errors import ProviderError, RateLimited, ServerFault, Transient, UsageError
from hermes.core.messages import Assistant, from_dict, to_dict
from hermes.core.model import EmitModelEvent, ModelRequest, Reply, Usage
from hermes.envs.atropos import PROMPT_LOGPROB, PROMPT_MASK
from hermes.envs.capture import CaptureServer
from hermes.envs.model_servers import ModelServerClient, ServerKind
from hermes.envs.runner import ModelEndpoint
from hermes.envs.trace import Sample, Trace, content_text
from hermes.util.http import parse_http_url
from hermes.util.text import many

OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLES = {"api.openai.com": "OPENAI_API_KEY", "openrouter.ai": "OPENROUTER_API_KEY"}
ATTEMPTS = 3  #: For a request of the environment itself; rollouts have their own policy.
PHASE_2: dict[str, ServerKind] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llama.cpp": "llama.cpp",
    "trl": "chat",
}
"""Kind of the capture endpoint by `server_type`. Other servers return no tokens."""

Item = Any
Message = dict[str, Any]


class ScoredDataItem(TypedDict, total=False):
    """One rollout with its score."""

    tokens: list[int]
    masks: list[int]  #: The token, or -100 if the model did not sample it.
    scores: float
    inference_logprobs: list[float]  #: 1.0 for tokens that the model did not sample.
    advantages: list[float] | None
    messages: list[Message] | None
    group_overrides: dict[str, Any] | None
    overrides: dict[str, Any] | None
    metadata: dict[str, Any]  #: Our own; not sent to the trainer.


class ScoredDataGroup(TypedDict, total=False):
    """Rollouts that are compared with each other, usually of one item."""

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[float]
    inference_logprobs: list[list[float]]
    advantages: list[list[float]] | None
    messages: list[list[Message]] | None
    group_overrides: dict[str, Any] | None
    overrides: list[dict[str, Any]] | None
    metadata: list[dict[str, Any]]


def group_of(items: Sequence[Mapping[str, Any]]) -> ScoredDataGroup:
    """Return a group of rollouts. A field that one of them lacks is left out."""
    shared = set.intersection(*(set(item) for item in items)) - {"group_overrides"}
    group: Any = {name: [item[name] for item in items] for name in items[0] if name in shared}
    if overrides := items[0].get("group_overrides"):
        group["group_overrides"] = overrides
    return group  # type: ignore[no-any-return]


# Configuration


class EnvConfigField(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    default: Any
    description: str = ""
    required: bool = False

    def convert(self, value: Any, where: str = "") -> Any:
        """Return the value in the type of the field. Raises `UsageError`."""
        if isinstance(value, Enum):  # it may be the one of atroposlib itself
            value = value.value
        if isinstance(value, str) and self.kind is not str:
            value = _from_text(value, self.kind)
        try:
            return msgspec.convert(value, self.kind, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"{where or self.name}: {error}") from error
        except TypeError:  # a type of the script, which is kept as it is
            return value


class ConfigModel:
    """Settings with the types and defaults of class attributes.

    A keyword that is not a field, and a value of another type, are a `UsageError`.
    """

    def __init__(self, **values: Any) -> None:
        fields = self.fields()
        if unknown := [name for name in values if name not in fields]:
            raise UsageError(f"{type(self).__name__} has no field {unknown[0]!r}")
        for name, field in fields.items():
            if name in values:
                setattr(self, name, field.convert(values[name]))
            elif field.required:
                raise UsageError(f"{type(self).__name__} needs a value for {name!r}")
            else:
                setattr(self, name, copy.deepcopy(field.default))

    @classmethod
    def fields(cls) -> dict[str, EnvConfigField]:
        hints = typing.get_type_hints(cls, include_extras=True)
        return {
            name: _field(name, hint, getattr(cls, name, ...))
            for name, hint in hints.items()
            if typing.get_origin(hint) is not ClassVar and not name.startswith("_")
        }

    def model_dump(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.fields()}

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        return type(self)(**{**self.model_dump(), **(update or {})})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def _field(name: str, hint: Any, default: Any) -> EnvConfigField:
    notes = getattr(hint, "__metadata__", ())
    description = next((note for note in notes if isinstance(note, str)), "")
    if hasattr(default, "default_factory"):  # made by pydantic.Field or dataclasses.field
        description = getattr(default, "description", None) or description
        factory = default.default_factory
        default = factory() if callable(factory) else default.default
    missing = default is ... or type(default).__name__ in ("PydanticUndefinedType", "_MISSING_TYPE")
    return EnvConfigField(name, hint, None if missing else default, description, missing)


def _from_text(text: str, kind: Any) -> Any:
    """Return what a text of the command line stands for: JSON, or values separated by commas."""
    kinds = set(_plain_types(kind))
    if text.lower() in ("none", "null") and types.NoneType in kinds:
        return None
    containers = kinds & {list, tuple, set, dict}
    if text[:1] in ("[", "{") and (containers or Any in kinds):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    if containers - {dict} and str not in kinds:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _plain_types(kind: Any) -> Iterator[Any]:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType, Annotated):
        arguments = typing.get_args(kind)
        for argument in arguments[:1] if origin is Annotated else arguments:
            yield from _plain_types(argument)
    else:
        yield origin or kind


class EvalHandlingEnum(Enum):
    """What happens to the training while an evaluation runs."""

    STOP_TRAIN = "STOP_TRAIN"
    LIMIT_TRAIN = "LIMIT_TRAIN"
    NONE = "NONE"


class BaseEnvConfig(ConfigModel):
    group_size: Annotated[int, "rollouts of each item"] = 4
    max_num_workers: Annotated[int, "groups at the same time; -1: by servers"] = -1
    max_eval_workers: Annotated[int, "rollouts of an evaluation at the same time"] = 16
    max_num_workers_per_node: Annotated[int, "groups at the same time for each server"] = 8
    steps_per_eval: Annotated[int, "steps of the trainer between two evaluations"] = 100
    max_token_length: Annotated[int, "tokens of one reply of the model"] = 2048
    eval_handling: Annotated[EvalHandlingEnum, "what an evaluation does to the training"] = (
        EvalHandlingEnum.STOP_TRAIN
    )
    eval_limit_ratio: Annotated[float, "share of the workers with LIMIT_TRAIN"] = 0.5
    inference_weight: Annotated[float, "weight of this environment in a batch"] = 1.0
    batch_size: Annotated[int, "rollouts in a batch; the trainer sets it"] = -1
    min_batch_allocation: Annotated[float | None, "smallest share of a batch, 0 to 1"] = None
    max_batches_offpolicy: Annotated[int, "batches that may wait for the trainer"] = 3
    tokenizer_name: Annotated[str, "recorded only: the model server tokenizes"] = (
        "NousResearch/DeepHermes-3-Llama-3-8B-Preview"
    )
    use_wandb: Annotated[bool, "send metrics to Weights & Biases, if it is installed"] = True
    wandb_name: Annotated[str | None, "name of the run there"] = None
    rollout_server_url: Annotated[str, "the API of Atropos, for `serve`"] = "http://localhost:8000"
    total_steps: Annotated[int, "items of `process`; steps of the trainer for `serve`"] = 1000
    ensure_scores_are_not_same: Annotated[bool, "`serve` sends no group of equal scores"] = True
    data_path_to_save_groups: Annotated[str | None, "file for the rollouts"] = None
    data_dir_to_save_evals: Annotated[str | None, "folder for evaluations"] = None
    include_messages: Annotated[bool, "send the messages to the trainer too"] = False
    num_rollouts_to_keep: Annotated[int, "accepted, without effect"] = 32
    num_rollouts_per_group_for_logging: Annotated[int, "accepted, without effect"] = 1
    min_items_sent_before_logging: Annotated[int, "accepted, without effect"] = 2


class ServerManagerConfig(ConfigModel):
    slurm: Annotated[bool, "accepted, without effect"] = False
    testing: Annotated[bool, "accepted, without effect"] = False


class ServerBaseline(ConfigModel):
    timeout: Annotated[int, "seconds for a request"] = 1200
    num_max_requests_at_once: Annotated[int, "requests of the environment's own code"] = 512
    num_requests_for_eval: Annotated[int, "accepted, without effect"] = 64
    model_name: Annotated[str, "name of the model"] = "default"
    rolling_buffer_length: Annotated[int, "accepted, without effect"] = 1000
    server_type: Annotated[str, "openai; or vllm, sglang, llama.cpp, trl, which give tokens"] = (
        "openai"
    )


class APIServerConfig(ServerBaseline):
    base_url: Annotated[str | None, "address of the server, ending in /v1"] = None
    api_key: Annotated[
        str | None, "key; by default OPENAI_API_KEY or OPENROUTER_API_KEY, for their servers"
    ] = None
    health_check: Annotated[bool, "check at the start that the server answers"] = True
    tracing_enabled: Annotated[bool, "accepted, without effect"] = False


OpenaiConfig = APIServerConfig


def server_configs(given: Any) -> list[APIServerConfig]:
    """Return the configuration of each server, also from one object or those of atroposlib."""
    fields = APIServerConfig.fields()
    return [
        APIServerConfig(**{n: v for n, v in each.model_dump().items() if n in fields})
        for each in (given if isinstance(given, list | tuple) else [given])
    ]


# Model servers


class ReplyObject(dict[str, Any]):
    """A JSON object whose fields are attributes too, as in the library of OpenAI; a field that is
    not there is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def model_dump(self) -> dict[str, Any]:
        return dict(self)


def _as_objects(value: Any) -> Any:
    match value:
        case dict():
            return ReplyObject({name: _as_objects(each) for name, each in value.items()})
        case list():
            return [_as_objects(each) for each in value]
        case _:
            return value


def reply_dict(message: Any) -> dict[str, Any]:
    """Return a message of a completion, of our servers or of the library of OpenAI."""
    dump = getattr(message, "model_dump", None)
    fields = dump() if dump is not None else dict(message)
    return {name: value for name, value in fields.items() if value or name == "content"}


class ServerModel:
    """Any object with `chat_completion` as the model of a rollout. It is called in the event loop
    of the environment."""

    provider = "custom"

    def __init__(
        self,
        server: Any,
        name: str,
        sampling: Mapping[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name, self._server, self._sampling, self._loop = name, server, sampling, loop

    def for_turn(self) -> Self:
        return self

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:  # noqa: ARG002 - replies come whole
        """Raises `ServerFault` for any exception of the server."""
        tools = [
            {"type": "function", "function": msgspec.to_builtins(spec)} for spec in request.tools
        ]
        messages = [to_dict(message) for message in request.messages]
        offered: dict[str, Any] = {"tools": tools} if tools else {}
        work = self._server.chat_completion(messages=messages, **offered, **self._sampling)
        try:
            reply = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
            choice = reply.choices[0]
            finish = choice.finish_reason or "stop"
            message = from_dict({**reply_dict(choice.message), "finish_reason": finish})
        except ProviderError:
            raise
        except Exception as error:
            raise ServerFault(f"chat_completion: {type(error).__name__}: {error}") from error
        assert isinstance(message, Assistant)  # the role of a reply
        usage = getattr(reply, "usage", None)
        counts = (getattr(usage, name, 0) or 0 for name in ("prompt_tokens", "completion_tokens"))
        return Reply(message, Usage(*counts), model=self.name)


class SequenceNode(msgspec.Struct, frozen=True):
    """A sequence of tokens as training data. The tokens of a server that returns none are
    placeholders, and all of them are masked."""

    full_text: str
    tokens: list[int]
    masked_tokens: list[int]
    logprobs: list[float]
    metadata: dict[str, Any] = {}


def sequence_node(sample: Sample, **metadata: Any) -> SequenceNode:
    text = "\n".join(content_text(message.get("content")) for message in sample.messages)
    metadata["token_exact"] = sample.token_exact
    if not sample.token_exact:
        size = len(sample.messages)
        return SequenceNode(
            text, [0] * size, [PROMPT_MASK] * size, [PROMPT_LOGPROB] * size, metadata
        )
    pairs = list(zip(sample.token_ids, sample.mask, strict=True))
    masked = [token if flag else PROMPT_MASK for token, flag in pairs]
    logprobs = [
        value if flag else PROMPT_LOGPROB
        for value, flag in zip(sample.logprobs, sample.mask, strict=True)
    ]
    return SequenceNode(text, list(sample.token_ids), masked, logprobs, metadata)


class APIServer:
    """One model server. Its connections live in the event loop of the runtime, so it can be used
    from any thread and event loop."""

    def __init__(self, config: APIServerConfig, parser: str = "hermes") -> None:
        self.config = config
        self.base_url = config.base_url or OPENAI_URL
        self._parser = parser
        self._clients: dict[str, ModelServerClient] = {}  #: By the root of the server.
        self._capture: CaptureServer | None = None
        self._limit = asyncio.Semaphore(max(1, config.num_max_requests_at_once))

    @property
    def api_key(self) -> str:
        """The key of the configuration, else that of the user for a service that needs one. It is
        not sent to any other server."""
        if self.config.api_key:
            return self.config.api_key
        found = parse_http_url(self.base_url)
        variable = KEY_VARIABLES.get(found.host if found else "")
        return (script_runtime().loaded.variable(variable) if variable else "") or ""

    @property
    def has_tokens(self) -> bool:
        return self.config.server_type in PHASE_2

    async def chat_completion(self, **request: Any) -> ReplyObject:
        """Return a completion for `messages`, with `tools` and fields such as `temperature`.
        Raises `ProviderError`."""
        return await self.post(self.base_url, "/v1/chat/completions", request)

    async def completion(self, **request: Any) -> ReplyObject:
        """Return a completion of the text `prompt`. Raises `ProviderError`."""
        return await self.post(self.base_url, "/v1/completions", request)

    async def check_health(self) -> None:
        """Raise `UsageError` if the server cannot be reached. Any answer will do."""
        try:
            await self._run(self._client(self.base_url).post("/v1/models", {}, dict))
        except ProviderError as error:
            if isinstance(error, Transient) and not error.status:
                hint = "start the server, or name another one with --openai.base_url URL"
                raise UsageError(str(error), hint=hint) from error

    async def endpoint(self, sampling: Mapping[str, Any]) -> Any:
        """Return what a rollout needs to use the server."""
        model = ModelEndpoint(
            base_url="" if self.has_tokens else self.base_url,
            model=self.config.model_name,
            api_key=self.api_key,
            sampling=dict(sampling),
        )
        return (await self._run(self._open_capture()), model) if self.has_tokens else model

    @asynccontextmanager
    async def managed_server(self, tokenizer: Any = None) -> AsyncIterator["ManagedServer"]:  # noqa: ARG002 - documented; the server tokenizes
        capture = await self._run(self._open_capture())
        managed = ManagedServer(self, capture)
        try:
            yield managed
        finally:
            capture.take(managed.name)

    async def close(self) -> None:
        if self._capture is not None:
            await self._run(self._capture.__aexit__())
        for client in self._clients.values():
            await self._run(client.close())
        self._capture = None
        self._clients.clear()

    async def _open_capture(self) -> CaptureServer:
        if self._capture is None:
            kind = PHASE_2.get(self.config.server_type, "chat")
            parser = self._parser if self.has_tokens else ""
            model, key = self.config.model_name, self.api_key
            capture = CaptureServer(self.base_url, kind, model=model, api_key=key, parser=parser)
            self._capture = await capture.__aenter__()
        return self._capture

    def _client(self, root: str) -> ModelServerClient:
        if root not in self._clients:
            key = self.api_key if root == self.base_url else ""
            self._clients[root] = ModelServerClient(root, api_key=key)
        return self._clients[root]

    async def post(self, root: str, path: str, request: Mapping[str, Any]) -> ReplyObject:
        """Send a request to this server, or to the capture endpoint in front of it."""
        fields = {name: value for name, value in request.items() if value is not None}
        body = {"model": self.config.model_name, **(fields.pop("extra_body", None) or {}), **fields}
        return _as_objects(await self._run(self._send(root, path, body)))  # type: ignore[no-any-return]

    async def _send(self, root: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        async with self._limit, asyncio.timeout(self.config.timeout):
            attempt = 1
            while True:
                try:
                    return await self._client(root).post(path, body, dict)
                except (Transient, RateLimited):
                    if attempt == ATTEMPTS:
                        raise
                    await asyncio.sleep(2**attempt / 4)
                    attempt += 1

    async def _run(self, work: Any) -> Any:
        return await asyncio.wrap_future(script_runtime().submit(work))


class ManagedServer:
    """Records the tokens of the requests that are made with it."""

    _numbers = count(1)

    def __init__(self, server: APIServer, capture: CaptureServer) -> None:
        self._server, self._capture = server, capture
        self.name = f"managed-{next(self._numbers)}"

    async def chat_completion(self, *, n: int = 1, **request: Any) -> ReplyObject:
        """Return `n` completions for the same messages."""
        root, _, path = self._capture.url(self.name).rpartition(f"/{self.name}/")
        path = f"/{self.name}/{path}/chat/completions"
        replies = await asyncio.gather(*(self._server.post(root, path, request) for _ in range(n)))
        return ReplyObject({**replies[0], "choices": [each.choices[0] for each in replies]})

    async def completion(self, **_request: Any) -> ReplyObject:
        raise UsageError(
            "completions of text are not recorded", hint="use chat_completion(messages=…)"
        )

    def get_state(self) -> dict[str, Any]:
        """Return the sequences as `nodes`; a conversation that went on is one sequence."""
        recorder = self._capture.recorder(self.name)
        trace = Trace(self.name, "", "", self._server.config.model_name, recorder.nodes)
        reasons = [recorder.nodes[each.nodes[-1]].finish_reason for each in trace.branches()]
        nodes = [
            sequence_node(sample, finish_reason=reason)
            for sample, reason in zip(trace.branches(), reasons, strict=True)
        ]
        return {"nodes": nodes}


class ServerManager:
    """The model servers of an environment; requests take them in turn."""

    def __init__(self, configs: Sequence[APIServerConfig], parser: str = "hermes") -> None:
        if not configs:
            raise UsageError("no model server is configured", hint="--openai.base_url URL")
        self.servers = [APIServer(config, parser) for config in configs]
        self._turns = cycle(self.servers)

    def next_server(self) -> APIServer:
        return next(self._turns)

    async def chat_completion(self, **request: Any) -> ReplyObject:
        return await self.next_server().chat_completion(**request)

    async def completion(self, **request: Any) -> ReplyObject:
        return await self.next_server().completion(**request)

    @asynccontextmanager
    async def managed_server(self, tokenizer: Any = None) -> AsyncIterator[ManagedServer]:
        async with self.next_server().managed_server(tokenizer) as managed:
            yield managed

    async def check_health(self) -> None:
        for server in self.servers:
            if server.config.health_check:
                await server.check_health()

    async def close(self) -> None:
        for server in self.servers:
            await server.close()

    def __repr__(self) -> str:
        return f"<{many(len(self.servers), 'model server')}>"
