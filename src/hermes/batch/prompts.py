"""Runs of prompts: our agent works on each row of a dataset, and its conversation is saved.

A row of the dataset (JSON Lines) has a `prompt`, or `conversations` (ShareGPT) or `messages`
(OpenAI) whose first message of the user is the prompt. It may name a container image and a folder.
Its other fields are the `metadata` of the saved trajectory.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from hermes.app import Providers
from hermes.batch.distributions import Distribution, find_distribution
from hermes.batch.journal import JournaledModel
from hermes.batch.ledger import read_run_file
from hermes.batch.models import RunModel, TargetModels
from hermes.batch.statistics import REPEAT, count_tools, has_reasoning
from hermes.batch.work import (
    CallJournal,
    FinalState,
    ItemJob,
    ItemResult,
    RunSpec,
    WorkItem,
    number_items,
)
from hermes.config.home import Home
from hermes.config.settings.base import terminal_names
from hermes.core.errors import UsageError
from hermes.core.messages import Message, System, ToolResult, from_dict
from hermes.core.model import EmitModelEvent, Model, ModelRequest, Price, Reply
from hermes.envs import ModelEndpoint, RolloutOptions, RolloutRunner, Task, Trace
from hermes.envs.runner import SilentProgress
from hermes.providers.local import DownloadProgress
from hermes.providers.policy import ModelWrapper
from hermes.store import Turn
from hermes.util.concurrency import SystemClock
from hermes.util.text import clean

IMAGE_FIELDS = ("image", "docker_image", "container_image")
FOLDER_FIELDS = ("cwd", "folder")
PROMPT_FIELDS = ("prompt", "conversations", "messages")
WITHOUT_IMAGES = ("local", "sandbox", "ssh")  #: Backends that have no container images.
NO_REASONING = "no reasoning in any turn"


# Sampling.


class PromptSampling(msgspec.Struct, frozen=True, kw_only=True):
    """How the model is sampled; empty values leave it to the endpoint."""

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""  #: As in `ModelRequest`.
    providers: dict[str, Any] = {}
    """OpenRouter's `provider` object: `only`, `ignore`, `order` and `sort`."""

    def apply(self, request: ModelRequest) -> ModelRequest:
        return msgspec.structs.replace(
            request,
            max_tokens=self.max_tokens or request.max_tokens,
            temperature=request.temperature if self.temperature is None else self.temperature,
            reasoning_effort=self.reasoning_effort or request.reasoning_effort,
        )


class _PromptModel(ModelWrapper):
    """Samples as the run says, sends messages that are not saved, and counts tool results."""

    def __init__(
        self, inner: Model, sampling: PromptSampling, prefill: Sequence[Message], seen: "_Seen"
    ) -> None:
        super().__init__(inner)
        self._sampling, self._prefill, self._seen = sampling, prefill, seen

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        messages = request.messages
        self._seen.results = [each for each in messages if isinstance(each, ToolResult)]
        if self._prefill:
            start = next((i for i, m in enumerate(messages) if not isinstance(m, System)), 0)
            messages = (*messages[:start], *self._prefill, *messages[start:])
        changed = msgspec.structs.replace(request, messages=messages)
        return await self._inner.call(self._sampling.apply(changed), emit)


class _Seen:
    """The tool results of the last request of a rollout, which has those of all before it."""

    def __init__(self) -> None:
        self.results: list[ToolResult] = []


# The dataset.


class PromptRow(msgspec.Struct, frozen=True):
    """What a row of the dataset asks for."""

    prompt: str
    image: str = ""
    folder: str = ""
    metadata: dict[str, Any] = {}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PromptRow":
        """Raises `UsageError` that says what is wrong with the row."""
        image, folder = _text_field(row, IMAGE_FIELDS), _text_field(row, FOLDER_FIELDS)
        metadata = {name: value for name, value in row.items() if name not in PROMPT_FIELDS}
        return cls(_prompt_of(row), image, folder, metadata)


def _prompt_of(row: Mapping[str, Any]) -> str:
    if "prompt" in row:
        prompt = row["prompt"]
        if not isinstance(prompt, str):
            raise UsageError(f"`prompt` is {type(prompt).__name__}, not text")
    else:
        name = next((name for name in PROMPT_FIELDS if row.get(name)), "")
        if not name:
            raise UsageError("it has no `prompt`, no `conversations` and no `messages`")
        turns = row[name]
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            raise UsageError(f"`{name}` is not a list of objects")
        asked = (t for t in turns if (t.get("from") or t.get("role")) in ("human", "user"))
        first = next(asked, None)
        if first is None:
            raise UsageError(f"`{name}` has no message of a user")
        prompt = first.get("value", first.get("content"))
        if not isinstance(prompt, str):
            raise UsageError(f"the first message of the user in `{name}` is not text")
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return prompt


def _text_field(row: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            raise UsageError(f"`{name}` is not text")
        if value:
            return value
    return ""


def read_dataset(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file, at most `limit`. Raises `UsageError` with the file and
    the line of an invalid row, and for a file without rows."""
    count = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                if limit is not None and count >= limit:
                    return
                count += 1
                yield _read_row(line, f"{path}:{number}")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if not count:
        raise UsageError(f"{path} has no rows", hint='a row: {"prompt": "List the files."}')


def _read_row(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise UsageError("it is not an object")
        PromptRow.of(row)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{place} is not JSON: {error}", hint='a row: {"prompt": "List the files."}'
        ) from error
    except UsageError as error:
        raise UsageError(
            f"{place} is not a row of prompts: {error}", hint='a row: {"prompt": "List the files."}'
        ) from error
    return row


Shape = dict[str, Any]
"""The fields of all metadata; the value is the shape of the objects in a field, or None."""


def metadata_shape(rows: Iterator[Mapping[str, Any]]) -> Shape:
    """Return all fields of the metadata of `rows`, so that every line can have all of them."""
    shape: Shape = {}
    for row in rows:
        _add_shape(shape, PromptRow.of(row).metadata)
    return shape


def _add_shape(shape: Shape, value: Mapping[str, Any]) -> None:
    for name, each in value.items():
        if isinstance(each, dict):
            inner = shape.get(name)
            shape[name] = inner = inner if inner is not None else {}
            _add_shape(inner, each)
        else:
            shape.setdefault(name, None)


def _fit_shape(value: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return `value` with all fields of `shape`; null where it has none."""
    return {
        name: _fit_shape(value.get(name) or {}, inner)
        if inner is not None and isinstance(value.get(name), dict | None)
        else value.get(name)
        for name, inner in shape.items()
    }


def read_prefill(path: Path) -> tuple[dict[str, Any], ...]:
    """Read a JSON file with a list of OpenAI-format messages. Raises `UsageError`."""
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
            raise UsageError("it is not a list of messages")
        for each in data:
            from_dict(each)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, UsageError) as error:
        hint = 'an example: [{"role": "user", "content": "Hi."}]'
        raise UsageError(f"{path} has no messages: {error}", hint=hint) from error
    return tuple(data)


# The run.


class PromptSpec(RunSpec, frozen=True, kw_only=True, tag="prompts"):
    """A run of prompts."""

    dataset: str
    model: RunModel
    distribution: Distribution
    batch_size: int = 10  #: Rows in one output file.
    max_samples: int | None = None  #: Rows; None: all.
    repeats: int = 1  #: Rollouts of each row.
    sampling: PromptSampling = PromptSampling()
    max_turns: int = 10  #: Model calls of a rollout.
    system_prompt: str = ""  #: Added to the system prompt and not saved.
    prefill: tuple[dict[str, Any], ...] = ()  #: Messages before each conversation; not saved.
    backend: str = "local"  #: Where commands run.
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Further settings of the rollouts, by dotted keys."""
    seed: int = 0  #: Of the toolsets.
    keep_without_reasoning: bool = False
    shape: Shape = msgspec.field(default_factory=dict)  #: See `metadata_shape`.

    def fingerprint(self) -> str:
        """The address of the endpoint and the home are not part of it: they may move."""
        facts = msgspec.to_builtins(self)
        for name in ("dataset", "batch_size", "max_samples", "repeats", "shape"):
            del facts[name]
        facts["model"] = self.model.resolved
        return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the dataset. Raises `UsageError`."""
        for number, row in enumerate(read_dataset(Path(self.dataset), self.max_samples), start=1):
            asked = PromptRow.of(row)
            if asked.image and self.backend in WITHOUT_IMAGES:
                raise UsageError(
                    f"row {number} of {self.dataset} names the image {asked.image}, but commands"
                    f" run in the backend {self.backend}",
                    hint="add --backend docker",
                )
            if self.repeats > 1 and REPEAT in asked.metadata:
                raise UsageError(
                    f"row {number} of {self.dataset} has a field `{REPEAT}`, which a run with"
                    " --repeats writes itself",
                    hint="rename the field in the dataset",
                )
            yield row

    def items(self) -> Iterator[WorkItem]:
        return number_items(self.rows(), self.fingerprint(), self.repeats)

    def output_file(self, item: WorkItem) -> str:
        return f"batch_{item.index // self.batch_size + 1:03}_output.jsonl"

    def open_job(self, workspace: str = "") -> ItemJob:
        return PromptJob(self, workspace)

    def price(self) -> Price | None:
        return self.model.price

    def max_output(self) -> int | None:
        return self.sampling.max_tokens

    def toolsets(self, item: WorkItem) -> tuple[str, ...]:
        """Return the toolsets of an item: always the same for the same item."""
        rng = random.Random(f"{self.seed}:{item.key}")
        return self.distribution.sample(rng)


ROLLOUT_SETTINGS = (
    "timeout", "sandbox_network", "container_program", "container_cpu", "container_memory",
    "container_disk", "docker_network", "docker_image", "modal_image", "daytona_image",
    "singularity_image", "ssh_host", "ssh_user", "ssh_key", "ssh_port", "ssh_options",
)  # fmt: skip
"""Settings of `terminal` that a run takes over from the home. All others have their defaults."""


MAY_CHANGE = ("dataset", "max_samples")  #: Fields that may differ when a run is continued.


async def plan_prompts(
    dataset: Path,
    model: RunModel,
    distribution: str = "default",
    *,
    progress: DownloadProgress | None = None,
    for_cluster: bool = False,
    needs_price: bool = False,
    **fields: Any,
) -> PromptSpec:
    """Return the spec of a new run, with `fields` of `PromptSpec`. The whole dataset is checked.

    Raises `UsageError` for an invalid dataset or distribution, and what the choice of a model
    raises.
    """
    drawn = find_distribution(distribution)
    terminal = model.load().settings.terminal
    backend, defaults = fields.pop("backend", terminal.backend), type(terminal)()
    if backend not in terminal_names():
        raise UsageError(
            f"there is no backend {backend!r}", hint=f"known: {', '.join(terminal_names())}"
        )
    spec = PromptSpec(
        dataset=str(dataset.absolute()),
        model=model,
        distribution=drawn,
        settings={
            f"terminal.{name}": msgspec.to_builtins(getattr(terminal, name))
            for name in ROLLOUT_SETTINGS
            if getattr(terminal, name) != getattr(defaults, name)
        },
        backend=backend,
        **fields,
    )
    shape = metadata_shape(read_dataset(dataset))
    for _row in spec.rows():
        pass  # it raises for a row that does not fit the run
    found = await model.resolve(
        progress or SilentProgress(), for_cluster=for_cluster, needs_price=needs_price
    )
    return msgspec.structs.replace(spec, model=found, shape=shape)


def read_spec(folder: Path) -> PromptSpec:
    """Return the spec of the run in a folder. Raises `UsageError` if it is not one of prompts."""
    try:
        return msgspec.json.decode(read_run_file(folder).spec, type=PromptSpec)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the run in {folder} is not a run of prompts ({error})",
            hint="`hermes batch list` shows the runs",
        ) from error


async def continue_prompts(
    folder: Path,
    model: RunModel,
    *,
    progress: DownloadProgress | None = None,
    for_cluster: bool = False,
    needs_price: bool = False,
    **fields: Any,
) -> PromptSpec:
    """Return the spec of the run in a folder, to continue it. `model` and `fields` have what is
    given again; empty fields of `model` are as before.

    Raises `UsageError` if that changes the results of the run.
    """
    old, replace = read_spec(folder), msgspec.structs.replace
    given = {name: getattr(model, name) for name in ("name", "provider", "base_url", "api_key")}
    again = replace(old.model, home=model.home, **{k: v for k, v in given.items() if v})
    new = replace(old, **fields)
    before, after = (msgspec.to_builtins(spec) for spec in (old, new))
    changed = [name for name in after if after[name] != before[name] and name not in MAY_CHANGE]
    if changed:
        raise UsageError(
            f"the run in {folder} was started with another value of {', '.join(changed)}",
            hint="leave it out to continue the run, or give the new run another --run-name",
        )
    shape = metadata_shape(read_dataset(Path(new.dataset)))
    found = await again.resolve(
        progress or SilentProgress(), for_cluster=for_cluster, needs_price=needs_price
    )
    return replace(new, model=found, shape=shape)


class PromptJob(ItemJob):
    """Runs the agent on rows of a dataset."""

    def __init__(self, spec: PromptSpec, workspace: str) -> None:
        self._spec, self._workspace = spec, workspace
        self._prefill = tuple(map(from_dict, spec.prefill))
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        spec = self._spec
        options = RolloutOptions(
            backend=spec.backend,
            max_turns=spec.max_turns,
            settings=spec.settings,
            workspace=self._workspace,
        )
        async with AsyncExitStack() as stack:
            loaded = spec.model.load()
            home = Home(Path(spec.model.home))
            providers = await stack.enter_async_context(
                Providers(home, loaded, SystemClock(), SilentProgress())
            )
            target = await spec.model.find_target(providers, loaded)
            if spec.sampling.providers:
                body = {**target.profile.extra_body, "provider": spec.sampling.providers}
                profile = msgspec.structs.replace(target.profile, extra_body=body)
                target = msgspec.structs.replace(target, profile=profile)
            self._endpoint = (
                TargetModels(providers, target),
                ModelEndpoint(
                    base_url=target.base_url,
                    model=target.model,
                    context_length=target.profile.context_length,
                    price=target.profile.price,
                ),
            )
            self._runner = await stack.enter_async_context(RolloutRunner(options))
            self._resources = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._resources.aclose()

    async def run(self, item: WorkItem, journal: CallJournal) -> ItemResult:
        spec, seen = self._spec, _Seen()
        asked = PromptRow.of(item.row)
        task = Task(
            prompt=asked.prompt,
            system_prompt=spec.system_prompt,
            image=asked.image,
            folder=asked.folder,
        )

        def wrap(model: Model) -> Model:
            journaled = JournaledModel(model, journal)
            return _PromptModel(journaled, spec.sampling, self._prefill, seen)

        toolsets = spec.toolsets(item)
        trace = await self._runner.run(
            task, self._endpoint, toolsets=toolsets, wrap=wrap, folder_name=item.key
        )
        calls = sum(node.sampled for node in trace.nodes)
        state: FinalState = "done"
        reason, boundary, line = "", "", b""
        if trace.failure is not None:
            state, boundary = "failed", trace.failure.boundary
            reason = f"{trace.failure.error}: {trace.failure.message}"
        else:
            (*_, turns) = trace.to_sharegpt()
            if not spec.keep_without_reasoning and not has_reasoning(turns):
                state, reason = "discarded", NO_REASONING
            else:
                line = self._line(item, asked, trace, turns, toolsets, seen.results)
        return ItemResult(
            key=item.key,
            state=state,
            reason=reason,
            boundary=boundary,
            line=line,
            usage=trace.usage + trace.lost_usage,
            cost_usd=trace.cost_usd,
            api_calls=calls,
            seconds=trace.seconds,
        )

    def _line(
        self,
        item: WorkItem,
        asked: PromptRow,
        trace: Trace,
        turns: list[Turn],
        toolsets: Sequence[str],
        results: Sequence[ToolResult],
    ) -> bytes:
        metadata = {**asked.metadata, **_fit_shape(asked.metadata, self._spec.shape)}
        if self._spec.repeats > 1:
            metadata[REPEAT] = item.repeat
        used = count_tools(results)
        entry = {
            "prompt_index": item.index,
            "conversations": turns,
            "metadata": metadata,
            "completed": trace.exit_reason == "answered",
            "partial": trace.exit_reason == "truncated",
            "api_calls": sum(node.sampled for node in trace.nodes),
            "toolsets_used": list(toolsets),
            "tool_stats": used,
            "tool_error_counts": {name: counts["failure"] for name, counts in used.items()},
        }
        return clean(json.dumps(entry, ensure_ascii=False)).encode()
