"""The record of a rollout: a graph of messages with the tokens that each one added.

A node holds one message and only what it adds to the conversation before it: token ids, a mask (1
for tokens that the model sampled) and log probabilities. A branch, the path from the first message
to a reply without a successor, is a training sample. Evaluation reads the rewards, fine-tuning the
messages, and reinforcement learning the tokens.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes import __version__
from hermes.core.errors import (
    BackendUnavailable,
    CredentialsExhausted,
    HermesError,
    LocalModelError,
    ProviderError,
    RateLimited,
    ToolError,
    Transient,
    UsageError,
)
from hermes.core.messages import canonical_arguments, from_dict
from hermes.core.model import ToolSpec, Usage
from hermes.store.trajectory import Turn, to_sharegpt

JsonMessage = dict[str, Any]
"""A message in the format of chat completions."""
JsonTool = dict[str, Any]
"""A tool in the format of chat completions."""

Boundary = Literal["provider", "harness", "tool", "sandbox", "task"]
"""Where a rollout failed: the model endpoint; the agent; a tool with a bug; the place where
commands run; or the task's own code, such as a reward."""


class TaskError(HermesError):
    """The code of a task raised an exception."""


class Failure(msgspec.Struct, frozen=True):
    """Why a rollout has no result. It is attributed to exactly one boundary."""

    boundary: Boundary
    error: str  #: Name of the exception class.
    message: str
    retryable: bool = False  #: Another attempt may succeed.

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Attribute an exception. Transient provider errors, rate limits and unusable sandboxes
        are worth another attempt."""
        boundary: Boundary = "harness"
        retryable = False
        if isinstance(error, ProviderError | LocalModelError):
            boundary = "provider"
            retryable = isinstance(error, Transient | RateLimited | CredentialsExhausted)
        elif isinstance(error, BackendUnavailable):
            boundary, retryable = "sandbox", True
        elif isinstance(error, ToolError):
            boundary = "tool"
        elif isinstance(error, TaskError):
            boundary = "task"
        return cls(boundary, type(error).__name__, str(error), retryable)


class TraceNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message and what it adds. The tokens of a prompt belong to its last message: a template
    renders the messages between two replies together."""

    message: JsonMessage
    parent: int = -1  #: Index of the node before it; -1 for the first message.
    token_ids: tuple[int, ...] = ()
    mask: tuple[int, ...] = ()  #: 1 for each token that the model sampled, 0 for the others.
    logprobs: tuple[float, ...] = ()
    """Of the sampled tokens, at temperature 1; 0 for the others."""
    token_exact: bool = False
    """The ids are those that the model read and wrote. False: the server did not return them."""
    sampled: bool = False  #: A reply of the model.
    finish_reason: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float = 0.0  #: Duration of the model call.
    at: float = 0.0  #: Seconds since 1970 when the node was recorded.

    def __post_init__(self) -> None:
        if not len(self.token_ids) == len(self.mask) == len(self.logprobs):
            raise ValueError("token_ids, mask and logprobs of a node differ in length")


class Sample(msgspec.Struct, frozen=True):
    """A branch as a training sample: its tokens and its messages."""

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    token_exact: bool
    """False: not every token is known, and the sample must not be used for training on tokens."""
    messages: tuple[JsonMessage, ...]
    nodes: tuple[int, ...]  #: Indexes of its nodes in `Trace.nodes`.


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model call: the messages of the request, the reply, and the tokens of both."""

    messages: Sequence[JsonMessage]
    tools: Sequence[JsonTool] = ()
    reply: JsonMessage
    finish_reason: str = "stop"
    prompt_ids: Sequence[int] | None = None  #: None if the server did not return ids.
    completion_ids: Sequence[int] | None = None
    logprobs: Sequence[float] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


class TraceRecorder:
    """Builds the graph of one rollout from its model calls.

    A call whose messages and tools continue a recorded reply becomes a successor of that reply; any
    other call starts a new branch.
    """

    def __init__(self) -> None:
        self.nodes: list[TraceNode] = []
        self.tools: list[JsonTool] = []
        self._replies: dict[bytes, int] = {}
        """Index of the reply that ends a conversation, by the digest of the conversation."""

    def find_replies(
        self, messages: Sequence[JsonMessage], tools: Sequence[JsonTool]
    ) -> Iterator[tuple[int, int]]:
        """Yield the recorded replies among the messages, the last one first, as the index of the
        node and the number of messages up to it."""
        digests = _digests(messages, tools)
        for count in range(len(digests), 0, -1):
            if (node := self._replies.get(digests[count - 1])) is not None:
                yield node, count

    def token_ids(self, node: int) -> tuple[int, ...] | None:
        """Return all ids up to and including a node; None if some are not known."""
        path = [self.nodes[index] for index in _path(self.nodes, node)]
        if not all(each.token_exact for each in path):
            return None
        return tuple(token for each in path for token in each.token_ids)

    def add(self, call: RecordedCall) -> int:
        """Add a call and return the node of its reply."""
        self.tools = list(call.tools) or self.tools
        exact = call.prompt_ids is not None and call.completion_ids is not None
        prompt = tuple(call.prompt_ids or ()) if exact else ()
        parent, count = -1, 0
        for node, covered in self.find_replies(call.messages, call.tools):
            known = self.token_ids(node)
            if not exact or (known is not None and prompt[: len(known)] == known):
                parent, count = node, covered
                prompt = prompt[len(known or ()) :] if exact else ()
                break
        now, fresh = time.time(), call.messages[count:]
        for position, message in enumerate(fresh):
            ids = prompt if position == len(fresh) - 1 else ()
            zeros = (0,) * len(ids)
            self.nodes.append(
                TraceNode(message, parent, ids, zeros, tuple(map(float, zeros)), exact, at=now)
            )
            parent = len(self.nodes) - 1
        written = tuple(call.completion_ids or ()) if exact else ()
        self.nodes.append(
            TraceNode(
                call.reply,
                parent,
                written,
                (1,) * len(written),
                tuple(call.logprobs) if exact else (),
                exact,
                sampled=True,
                finish_reason=call.finish_reason,
                usage=call.usage,
                cost_usd=call.cost_usd,
                seconds=round(call.seconds, 6),
                at=now,
            )
        )
        digest = _digests([*call.messages, call.reply], call.tools)[-1]
        self._replies[digest] = len(self.nodes) - 1
        return len(self.nodes) - 1


class Trace(msgspec.Struct, omit_defaults=True):
    """The result of one rollout."""

    id: str
    task_key: str
    task_hash: str
    model: str
    nodes: list[TraceNode] = []
    tools: list[JsonTool] = []  #: As the model was offered them.
    rewards: dict[str, float] = {}
    weights: dict[str, float] = {}  #: Of the rewards.
    metrics: dict[str, float] = {}
    failure: Failure | None = None
    exit_reason: str = ""  #: How the agent's turn ended; see `TurnFinished.exit_reason`.
    retried: list[Failure] = []  #: Failures of the attempts before this one,
    lost_usage: Usage = Usage()  #: and the tokens they used.
    started_at: float = 0.0  #: Seconds since 1970.
    seconds: float = 0.0

    @property
    def reward(self) -> float | None:
        """The weighted sum of the rewards. None after a failure: a reward of 0
        would teach the model that what it did was wrong."""
        if self.failure is not None or not self.rewards:
            return None
        return sum(value * self.weights.get(name, 1.0) for name, value in self.rewards.items())

    @property
    def usage(self) -> Usage:
        return sum((node.usage for node in self.nodes if node.usage is not None), Usage())

    @property
    def cost_usd(self) -> float | None:
        """The cost of all calls; None if the price of one is not known."""
        costs = [node.cost_usd for node in self.nodes if node.sampled]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    @property
    def token_exact(self) -> bool:
        """Whether every branch can be used for training on tokens."""
        return bool(self.nodes) and all(node.token_exact for node in self.nodes)

    def branches(self) -> list[Sample]:
        """Return the training samples, in the order in which their last replies were recorded."""
        parents = {node.parent for node in self.nodes}
        ends = (index for index in range(len(self.nodes)) if index not in parents)
        return [self._sample(_path(self.nodes, end)) for end in ends]

    def _sample(self, path: Sequence[int]) -> Sample:
        nodes = [self.nodes[index] for index in path]
        return Sample(
            tuple(token for node in nodes for token in node.token_ids),
            tuple(flag for node in nodes for flag in node.mask),
            tuple(value for node in nodes for value in node.logprobs),
            all(node.token_exact for node in nodes),
            tuple(node.message for node in nodes),
            tuple(path),
        )

    # Exports

    def to_sharegpt(self) -> list[list[Turn]]:
        """Return the conversation of each branch as ShareGPT turns."""
        specs = [
            ToolSpec(each["name"], each.get("description", ""), each.get("parameters") or {})
            for tool in self.tools
            for each in [tool.get("function", tool)]
        ]
        return [
            to_sharegpt([from_dict(message) for message in branch.messages], specs)
            for branch in self.branches()
        ]

    def to_atif(self, *, agent_name: str = "hermes", version: str = __version__) -> dict[str, Any]:
        """Return the last branch as an ATIF v1.7 trajectory, with token ids where they are
        exact. Rewards, metrics and the failure are in `extra`."""
        branches = self.branches()
        steps = self._atif_steps(branches[-1].nodes) if branches else []
        usage, cost = self.usage, self.cost_usd
        metrics = {
            "total_prompt_tokens": usage.prompt,
            "total_completion_tokens": usage.output,
            "total_cached_tokens": usage.cache_read,
            "total_steps": len(steps),
            **({"total_cost_usd": cost} if cost is not None else {}),
        }
        agent = {"name": agent_name, "version": version, "model_name": self.model}
        extra = {
            "task_key": self.task_key,
            "task_hash": self.task_hash,
            "reward": self.reward,
            "rewards": self.rewards,
            "metrics": self.metrics,
            "failure": msgspec.to_builtins(self.failure),
        }
        return {
            "schema_version": "ATIF-v1.7",
            "session_id": self.id,
            "agent": {**agent, **({"tool_definitions": self.tools} if self.tools else {})},
            "steps": steps,
            "final_metrics": metrics,
            "extra": extra,
        }

    def _atif_steps(self, path: Iterable[int]) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        prompt: tuple[int, ...] = ()  #: The ids before the current node.
        for index in path:
            node = self.nodes[index]
            message, role = node.message, node.message.get("role")
            if role == "tool" and steps:
                result = {"content": content_text(message.get("content"))}
                if call_id := message.get("tool_call_id"):
                    result["source_call_id"] = call_id
                steps[-1].setdefault("observation", {"results": []})["results"].append(result)
            else:
                source = {"assistant": "agent", "user": "user"}.get(str(role), "system")
                step = {"step_id": len(steps) + 1, "source": source}
                step["message"] = content_text(message.get("content"))
                if node.at:
                    step["timestamp"] = datetime.fromtimestamp(node.at, UTC).isoformat()
                if source == "agent":
                    step.update(_atif_reply(node, prompt, self.model))
                steps.append(step)
            prompt += node.token_ids
        return steps


def _atif_reply(node: TraceNode, prompt: tuple[int, ...], model: str) -> dict[str, Any]:
    """Return the fields of a step that only replies have."""
    message = node.message
    fields: dict[str, Any] = {"model_name": model}
    if thought := message.get("reasoning_content") or message.get("reasoning"):
        fields["reasoning_content"] = thought
    if calls := message.get("tool_calls"):
        fields["tool_calls"] = [
            {
                "tool_call_id": call.get("id") or "",
                "function_name": call["function"]["name"],
                "arguments": _arguments(call["function"].get("arguments")),
            }
            for call in calls
        ]
    if node.usage is not None:
        metrics: dict[str, Any] = {
            "prompt_tokens": node.usage.prompt,
            "completion_tokens": node.usage.output,
            "cached_tokens": node.usage.cache_read,
        }
        if node.cost_usd is not None:
            metrics["cost_usd"] = node.cost_usd
        if node.token_exact:
            metrics["prompt_token_ids"] = list(prompt)
            metrics["completion_token_ids"] = list(node.token_ids)
            metrics["logprobs"] = list(node.logprobs)
        fields["metrics"] = metrics
    return fields


def _arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call as an object, also where the model wrote something else."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except msgspec.DecodeError:
            return {"invalid": arguments}
    return arguments if isinstance(arguments, dict) else {"invalid": arguments}


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Append traces to a file, one JSON object a line."""
    with path.open("ab") as file:
        for trace in traces:
            file.write(msgspec.json.encode(trace) + b"\n")


def read_traces(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file. Raises `UsageError` with the number of an invalid line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"{path}:{number} is not a trace: {error}",
                    hint="if it is the last line, a program was stopped while it wrote: remove it",
                ) from error


_decoder = msgspec.json.Decoder(Trace)


def _path(nodes: Sequence[TraceNode], end: int) -> list[int]:
    path = []
    while end >= 0:
        path.append(end)
        end = nodes[end].parent
    return path[::-1]


# Comparison of messages. Agents send a reply back with changes that do not matter: other white
# space around the text, other JSON spacing in arguments, without reasoning.


def _digests(messages: Sequence[JsonMessage], tools: Sequence[JsonTool]) -> list[bytes]:
    """Return a digest of each beginning of the conversation, with the tools."""
    digest = hashlib.sha256(msgspec.json.encode(tools, order="sorted"))
    digests = []
    for message in messages:
        digest.update(b"\n" + msgspec.json.encode(_comparable(message)))
        digests.append(digest.digest())
    return digests


def _comparable(message: Mapping[str, Any]) -> list[Any]:
    role, content = message.get("role"), message.get("content")
    if role != "assistant":
        plain = content_text(content) if _is_text(content) else content
        return [role, plain, message.get("tool_call_id")]
    calls = [
        [call["function"]["name"], _canonical(call["function"].get("arguments"))]
        for call in message.get("tool_calls") or ()
    ]
    return [role, content_text(content).strip(), calls]


def _canonical(arguments: Any) -> str:
    if isinstance(arguments, str):
        return canonical_arguments(arguments or "{}")
    return msgspec.json.encode(arguments or {}, order="sorted").decode()


def _is_text(content: Any) -> bool:
    return not isinstance(content, list) or all(
        isinstance(part, dict) and "text" in part for part in content
    )


def content_text(content: Any) -> str:
    """Return the text of a message's content: a string, null or a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
