"""Environments by their documented names: `environments.agent_loop`, `environments.tool_context`
and `environments.hermes_base_env`.

The rollouts of an environment are those of `hermes.envs`: our agent, in a place of its own, with a
failure that is attributed and never scored. The code of the environment runs in its own event loop;
agents, places and connections live in that of the runtime, so neither waits for the other.
"""

import asyncio
import io
import shlex
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from hermes.batch.distributions import sample_toolsets_from_distribution
from hermes.compat.atropos_names import (
    BaseEnvConfig,
    Item,
    ServerManager,
    ServerModel,
    reply_dict,
    sequence_node,
)
from hermes.compat.env_base import BaseEnv, append_lines, digest, read_lines, run_all
from hermes.compat.runtime import THREAD, script_runtime, tell
from hermes.compat.tools import get_tool_definitions, standalone_tools
from hermes.config.environment import export_variable
from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, HermesError, ToolUnknown, UsageError
from hermes.envs import (
    ModelEndpoint,
    RolloutContext,
    RolloutOptions,
    RolloutRunner,
    Task,
    Trace,
    reward,
)
from hermes.envs.trace import content_text
from hermes.util.text import many

T = TypeVar("T")
Dict = dict[str, Any]
ARCHIVE = ".hermes-transfer.tar"  #: Carries a folder into a place or out of it.
RESUMABLE = "samples.jsonl"
BROWSER_TOOLS = ("browser_navigate", "browser_snapshot")


# `environments.agent_loop`


class AgentToolError(msgspec.Struct, frozen=True):
    """A tool call that failed."""

    turn: int
    tool_name: str
    arguments: str
    error: str
    tool_result: str = ""


class AgentResult(msgspec.Struct):
    """What an agent did."""

    messages: list[Dict]
    turns_used: int = 0  #: Replies of the model.
    finished_naturally: bool = False  #: The model answered without calling a tool.
    reasoning_per_turn: list[str | None] = []
    tool_errors: list[AgentToolError] = []
    managed_state: Dict | None = None
    """Tokens, as `nodes`, where the server returns them."""


class ToolPool:
    """Limits the tool calls that run at the same time in all agent loops of the process."""

    def __init__(self, limit: int) -> None:
        self._limit = asyncio.Semaphore(limit)
        self._running: set[Future[str]] = set()

    async def call(self, name: str, arguments: Dict, task_id: str) -> str:
        """Return the result as JSON, also of a tool that fails."""
        future = script_runtime().submit(self._call(name, arguments, task_id))
        self._running.add(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._running.discard(future)

    async def _call(self, name: str, arguments: Dict, task_id: str) -> str:
        cancel = CancelToken()
        async with self._limit:
            try:
                return await standalone_tools().result(
                    name, arguments, task_id, cancel, hooked=True
                )
            finally:
                cancel.cancel("the agent loop was stopped")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - those of executors
        """Stop the calls that run."""
        for future in list(self._running):
            future.cancel()


tool_executor = ToolPool(128)


class HermesAgentLoop:
    """Lets a model work with tools, from messages that the caller gives.

    It is smaller than the agent of Hermes on purpose: messages and schemas are sent as they are,
    and the place of `task_id` stays open for a `ToolContext` until it is cleaned up. Running it is
    the consent to what the tools do; commands that are always refused stay refused.
    """

    def __init__(
        self,
        server: Any,
        tool_schemas: Sequence[Dict],
        valid_tool_names: Iterable[str] | None = None,
        max_turns: int = 30,
        task_id: str | None = None,
        temperature: float = 1.0,
        max_tokens: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.server, self.tool_schemas, self.max_turns = server, list(tool_schemas), max_turns
        named = {schema["function"]["name"] for schema in self.tool_schemas}
        self.valid_tool_names = set(valid_tool_names) if valid_tool_names is not None else named
        self.task_id = task_id or f"task-{digest(time.time_ns())[:12]}"
        fields = {"temperature": temperature, "max_tokens": max_tokens, "extra_body": extra_body}
        self._request: Dict = {name: value for name, value in fields.items() if value is not None}
        if self.tool_schemas:
            self._request["tools"] = self.tool_schemas

    async def run(self, messages: Sequence[Dict]) -> AgentResult:
        """Work until the model answers without a tool call, or `max_turns` is reached. Raises what
        the server raises."""
        standalone_tools().allow_rollouts({})
        result = AgentResult([dict(message) for message in messages])
        while result.turns_used < self.max_turns and not result.finished_naturally:
            reply = await self.server.chat_completion(messages=result.messages, **self._request)
            message = reply_dict(reply.choices[0].message)
            result.turns_used += 1
            result.messages.append(message)
            result.reasoning_per_turn.append(_reasoning(message))
            calls = message.get("tool_calls") or []
            result.finished_naturally = not calls
            answers = await asyncio.gather(
                *(self._answer(call, result.turns_used, result.tool_errors) for call in calls)
            )
            result.messages += answers
        if hasattr(self.server, "get_state"):
            result.managed_state = self.server.get_state()
        return result

    async def _answer(self, call: Dict, turn: int, errors: list[AgentToolError]) -> Dict:
        name, given = call["function"]["name"], call["function"].get("arguments") or "{}"
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        try:
            arguments = msgspec.json.decode(text, type=dict)
        except msgspec.DecodeError as error:
            result = _error_text(f"the arguments are not a JSON object: {error}")
        else:
            if name in self.valid_tool_names:
                result = await tool_executor.call(name, arguments, self.task_id)
            else:
                known = ", ".join(sorted(self.valid_tool_names))
                result = _error_text(f"there is no tool {name!r}; the tools are: {known}")
        if problem := _problem(result):
            errors.append(AgentToolError(turn, name, text, problem, result))
        return {"role": "tool", "tool_call_id": call.get("id"), "name": name, "content": result}


def _reasoning(message: Mapping[str, Any]) -> str | None:
    return message.get("reasoning_content") or message.get("reasoning") or None


def _error_text(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


def _problem(result: str) -> str:
    """Return the error in the result of a tool; "" if the call did what it was meant to do."""
    if not result.lstrip().startswith("{"):
        return ""
    try:
        found = msgspec.json.decode(result)
    except msgspec.DecodeError:
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, str) else ""


def result_of(trace: Trace) -> AgentResult:
    """Return a rollout in the documented form."""
    branches = trace.branches()
    if not branches:
        return AgentResult([])
    messages = [dict(message) for message in branches[-1].messages]
    result = AgentResult(messages, finished_naturally=trace.exit_reason == "answered")
    calls: dict[str, tuple[int, Dict]] = {}
    for message in messages:
        if message["role"] == "assistant":
            result.turns_used += 1
            result.reasoning_per_turn.append(_reasoning(message))
            for call in message.get("tool_calls") or ():
                calls[call.get("id") or ""] = (result.turns_used, call["function"])
        elif message["role"] == "tool":
            text = content_text(message.get("content"))
            turn, call = calls.get(message.get("tool_call_id") or "", (result.turns_used, {}))
            if problem := _problem(text):
                name, given = str(call.get("name") or ""), str(call.get("arguments") or "")
                result.tool_errors.append(AgentToolError(turn, name, given, problem, text))
    if branches[-1].token_exact:
        result.managed_state = {"nodes": [sequence_node(branch) for branch in branches]}
    return result


# `environments.tool_context`


class RolloutToolContext:
    """The place of one task, for code that judges what an agent did there: its files, processes and
    tools. The methods wait; those of a reward run in a thread of their own.

    What goes wrong with a file is in the result as `error`. A place that cannot be used raises
    `BackendUnavailable`: the rollout is then not scored.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.failure: HermesError | None = None  #: Why the place could not be used.
        self._pending: set[Future[Any]] = set()
        self._is_closed = False

    # Commands and files

    def terminal(self, command: str, timeout: float = 180) -> Dict:
        """Run a command; return `exit_code` and `output`."""
        return self._wait(self._place().terminal(command, timeout))

    def read_file(self, path: str) -> Dict:
        """Return the whole text as `content`; `content` is empty if there is an `error`."""
        return self._files({"content": ""}, self._place().read_file(path))

    def write_file(self, path: str, content: str | bytes) -> Dict:
        """Replace a file; return `success`."""
        return self._files({"success": False}, self._place().write_file(path, content))

    def search(self, query: str, path: str = ".") -> Dict:
        """Return the lines that match a regular expression as `matches`: path, line, content."""
        return self._files({"matches": [], "total_count": 0}, self._search(query, path))

    async def _search(self, query: str, path: str) -> Dict:
        hits = await self._place().search(query, path)
        matches = [{"path": file, "line": line, "content": text} for file, line, text in hits]
        return {"matches": matches, "total_count": len(matches)}

    def upload_file(self, local_path: str | Path, remote_path: str) -> Dict:
        """Copy a file of this machine into the place."""
        return self._files(
            {"success": False}, self._place().upload_file(Path(local_path), remote_path)
        )

    def download_file(self, remote_path: str, local_path: str | Path) -> Dict:
        """Copy a file of the place to this machine."""
        Path(local_path).parent.mkdir(parents=True, exist_ok=True)
        return self._files(
            {"success": False}, self._place().download_file(remote_path, Path(local_path))
        )

    def upload_dir(self, local_dir: str | Path, remote_dir: str) -> Dict:
        """Copy a folder of this machine, with everything in it, into the place."""
        return self._files({"success": False}, self._upload_dir(Path(local_dir), remote_dir))

    def download_dir(self, remote_dir: str, local_dir: str | Path) -> Dict:
        """Copy a folder of the place, with everything in it, to this machine."""
        return self._files({"success": False}, self._download_dir(remote_dir, Path(local_dir)))

    async def _upload_dir(self, source: Path, target: str) -> None:
        if not source.is_dir():
            raise NotADirectoryError(f"{source} is not a folder")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(source, arcname=".")
        place, folder = self._place(), shlex.quote(target)
        await place.write_file(f"{target}/{ARCHIVE}", packed.getvalue())
        await _command(place, f"(cd {folder} && tar -xf {ARCHIVE}; s=$?; rm -f {ARCHIVE}; exit $s)")

    async def _download_dir(self, source: str, target: Path) -> None:
        place, folder = self._place(), shlex.quote(source)
        packed = f"{source}/{ARCHIVE}"
        make = f"(cd {folder} && touch {ARCHIVE} && tar --exclude=./{ARCHIVE} -cf {ARCHIVE} .)"
        await _command(place, make)
        with tempfile.TemporaryDirectory() as scratch:
            try:
                await place.download_file(packed, Path(scratch, ARCHIVE))
            finally:
                await place.terminal(f"rm -f {shlex.quote(packed)}")
            target.mkdir(parents=True, exist_ok=True)
            with tarfile.open(Path(scratch, ARCHIVE)) as archive:
                archive.extractall(target, filter="data")

    # Tools

    def web_search(self, query: str, limit: int = 5) -> Dict:
        return self.call_tool("web_search", {"query": query, "limit": limit})

    def web_extract(self, urls: Sequence[str]) -> Dict:
        return self.call_tool("web_extract", {"urls": list(urls)})

    def browser_navigate(self, url: str) -> Dict:
        return self.call_tool("browser_navigate", {"url": url})

    def browser_snapshot(self) -> Dict:
        return self.call_tool("browser_snapshot", {})

    def call_tool(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> Dict:
        """Return the result of any tool as a dict; a failure is `{"error": …}`."""
        tools = standalone_tools()
        if tools.toolsets.registry.get(tool_name) is None:
            part = " are not part of this version of Hermes" if tool_name in BROWSER_TOOLS else ""
            raise ToolUnknown(
                f"the browser tools{part}" if part else f"there is no tool {tool_name!r}"
            )
        cancel = CancelToken()
        given = dict(arguments or {})
        work = tools.result(tool_name, given, self.task_id, cancel, hooked=False)
        found = msgspec.json.decode(self._wait(work))
        return found if isinstance(found, dict) else {"result": found}

    def cleanup(self) -> None:
        """End the programs of the task and free its place."""
        tools = standalone_tools().release(self.task_id)
        if tools is not None:
            self._wait(tools.close())

    # Waiting

    def close(self) -> None:
        """Stop what is waited for. Further calls are refused."""
        self._is_closed = True
        for future in list(self._pending):
            future.cancel()

    def _place(self) -> RolloutContext:
        return RolloutContext(standalone_tools().session_tools(self.task_id).place.workplace)

    def _files(self, failed: Dict, work: Coroutine[Any, Any, Any]) -> Dict:
        try:
            found = self._wait(work)
        except (OSError, tarfile.TarError) as error:
            return {**failed, "error": str(error)}
        return found if isinstance(found, dict) else {"success": True}

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed or threading.current_thread().name == THREAD:
            work.close()
            raise UsageError("the rollout of this context has ended")
        future = script_runtime().submit(work)
        self._pending.add(future)
        try:
            return future.result()
        except BackendUnavailable as error:
            self.failure = error
            raise
        finally:
            future.cancel()  # Ctrl-C ends the wait, and then what is waited for
            self._pending.discard(future)


async def _command(place: RolloutContext, command: str) -> None:
    done = await place.terminal(command)
    if done["exit_code"]:
        raise OSError(done["output"].strip() or f"tar failed with {done['exit_code']}")


# `environments.hermes_base_env`


class HermesAgentEnvConfig(BaseEnvConfig):
    enabled_toolsets: Annotated[list[str] | None, "toolsets of the agent; none: all"] = None
    disabled_toolsets: Annotated[list[str] | None, "toolsets that it does not get"] = None
    distribution: Annotated[str | None, "draw the toolsets of each group from this one"] = None
    max_agent_turns: Annotated[int, "replies of the model in a rollout"] = 30
    agent_temperature: Annotated[float, "temperature of the model"] = 1.0
    system_prompt: Annotated[str | None, "added to the system prompt"] = None
    terminal_backend: Annotated[
        str,
        "where commands run. With local they run as you on this machine, and starting the"
        " environment is your consent",
    ] = "local"
    terminal_timeout: Annotated[int, "seconds for a command"] = 120
    terminal_lifetime: Annotated[int, "seconds after which an idle place is taken down"] = 3600
    dataset_name: Annotated[str | None, "data of the tasks"] = None
    prompt_field: Annotated[str, "field of an item with the prompt"] = "prompt"
    tool_pool_size: Annotated[int, "rollouts that may run tools at the same time"] = 128
    tool_call_parser: Annotated[str, "format of tool calls, for servers with tokens"] = "hermes"
    extra_body: Annotated[dict[str, Any] | None, "further fields of each request"] = None


class _ItemTask(Task, frozen=True, kw_only=True):
    """An item of an environment as a task."""

    judge: Callable[[Trace, RolloutContext], Coroutine[Any, Any, float]]
    item_hash: str

    @property
    def hash(self) -> str:
        return self.item_hash

    @reward
    async def compute_reward(self, trace: Trace, ctx: RolloutContext) -> float:
        return await self.judge(trace, ctx)


class _Rollouts:
    """Runs the rollouts of an environment in the event loop of the runtime."""

    def __init__(self, config: HermesAgentEnvConfig) -> None:
        self._runner = RolloutRunner(
            RolloutOptions(
                backend=config.terminal_backend,
                max_turns=config.max_agent_turns,
                settings={
                    "terminal.timeout": config.terminal_timeout,
                    "terminal.lifetime_seconds": config.terminal_lifetime,
                },
            )
        )
        self._limit = asyncio.Semaphore(config.tool_pool_size)
        self._running: set[asyncio.Task[Any]] = set()
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        await self._stack.enter_async_context(self._runner)

    async def run(self, task: Task, endpoint: Any, toolsets: Sequence[str]) -> Trace:
        current = asyncio.current_task()
        assert current is not None
        self._running.add(current)
        try:
            async with self._limit:
                return await self._runner.run(task, endpoint, toolsets=toolsets)
        finally:
            self._running.discard(current)

    async def close(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._stack.aclose()


_group_tools: ContextVar[tuple[list[Dict], set[str]] | None] = ContextVar(
    "hermes_group_tools", default=None
)
"""The tools of the group that a rollout belongs to."""


class HermesAgentBaseEnv(BaseEnv):
    """An environment whose rollouts are those of the agent of Hermes.

    Subclasses implement `setup`, `get_next_item`, `format_prompt`, `compute_reward` and `evaluate`.
    An item may also be a `hermes.envs.Task`, which prepares its place and judges the result itself.
    """

    env_config_cls: ClassVar[type[HermesAgentEnvConfig]] = HermesAgentEnvConfig
    config: HermesAgentEnvConfig
    eval_items: Sequence[Item] = ()  #: What `evaluate` runs.
    reward_in_thread: ClassVar[bool] = True
    """`compute_reward` runs in a thread with an event loop of its own, so that a command in it does
    not hold up other rollouts. False runs it in the event loop of the environment, for rewards that
    share async clients."""

    _rollouts: _Rollouts | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._opening = asyncio.Lock()

    # For subclasses

    def format_prompt(self, item: Item) -> str:
        """Return the message that the agent gets."""
        if isinstance(item, Task):
            return item.prompt
        if isinstance(item, Mapping):
            return str(item[self.config.prompt_field])
        return str(item)

    async def compute_reward(
        self, item: Item, result: AgentResult, ctx: RolloutToolContext
    ) -> float:
        """Return the reward from 0 to 1. `ctx` is the place where the agent worked."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_reward")

    def task_overrides(self, item: Item) -> Dict:  # noqa: ARG002 - for subclasses
        """Return the container `image`, the `folder` and the `agent_timeout` of an item."""
        return {}

    async def evaluate(self, *_args: Any, **_kwargs: Any) -> None:
        """Run `eval_items` once each. Raises `UsageError` if there are none."""
        if not self.eval_items:
            raise UsageError(
                f"{self.title} has no evaluation",
                hint="define the method evaluate, or set self.eval_items in setup",
            )
        await self.evaluate_items(self.eval_items)

    # Rollouts

    def _resolve_tools_for_group(self) -> tuple[list[Dict], set[str]]:
        """Return the schemas and names of the tools for a group of rollouts."""
        config = self.config
        enabled = config.enabled_toolsets
        if config.distribution:
            enabled = list(sample_toolsets_from_distribution(config.distribution))
        schemas = get_tool_definitions(enabled, config.disabled_toolsets, quiet_mode=True)
        return schemas, {schema["function"]["name"] for schema in schemas}

    async def collect_trajectories(self, item: Item) -> tuple[Any, list[Item]]:
        _group_tools.set(self._resolve_tools_for_group())
        return await super().collect_trajectories(item)

    async def collect_trajectory(self, item: Item) -> tuple[Any, list[Item]]:
        """Return a scored rollout; None if it failed, which is recorded in `unscored`."""
        trace = await self.run_rollout(item)
        if trace.failure is not None or trace.reward is None:
            self.unscored.append(self._sample(item, trace))
            return None, []
        sample = trace.branches()[-1]
        node = sequence_node(sample)
        scored = {
            "tokens": node.tokens,
            "masks": node.masked_tokens,
            "scores": trace.reward,
            "inference_logprobs": node.logprobs,
            "messages": list(sample.messages),
            "metadata": self._metadata(trace),
        }
        return scored, []

    async def run_rollout(self, item: Item) -> Trace:
        """Let the agent work on an item and judge the result. A failure is in the trace."""
        await self.open_rollouts()
        rollouts, self._loop = self._rollouts, asyncio.get_running_loop()
        assert rollouts is not None
        _schemas, names = _group_tools.get() or self._resolve_tools_for_group()
        task = item if isinstance(item, Task) else self._task(item)
        work = rollouts.run(task, await self._endpoint(), sorted(names))
        trace = await asyncio.wrap_future(script_runtime().submit(work))
        if failure := trace.failure:
            tell(f"{task.key}: not scored ({failure.boundary}: {failure.message})")
        return trace

    async def _endpoint(self) -> Any:
        """Return what answers in a rollout: one of the servers, or what the subclass has set as
        `server`, which needs only `chat_completion`."""
        config, server = self.config, self.server
        sampling = {"temperature": config.agent_temperature, "max_tokens": config.max_token_length}
        sampling |= config.extra_body or {}
        if isinstance(server, ServerManager):
            return await server.next_server().endpoint(sampling)
        model = self.server_configs[0].model_name
        source = ServerModel(server, model, sampling, asyncio.get_running_loop())
        return source, ModelEndpoint(base_url="", model=model)

    def _task(self, item: Item) -> Task:
        async def judge(trace: Trace, ctx: RolloutContext) -> float:
            return await self._judge(item, trace, ctx)

        return _ItemTask(
            prompt=self.format_prompt(item),
            name=item_key(item),
            system_prompt=self.config.system_prompt or "",
            judge=judge,
            item_hash=digest(item),
            **self.task_overrides(item),
        )

    async def _judge(self, item: Item, trace: Trace, place: RolloutContext) -> float:
        """Run `compute_reward`. It is called in the event loop of the runtime."""
        assert place.session_tools is not None  # the runner gives them
        standalone_tools().adopt(trace.id, place.session_tools)
        ctx = RolloutToolContext(trace.id)
        try:
            work = self.compute_reward(item, result_of(trace), ctx)
            value = await asyncio.wrap_future(self._start_reward(work))
        finally:
            ctx.close()
            standalone_tools().release(trace.id)
        if ctx.failure is not None:  # also where the reward caught it
            raise ctx.failure
        return value

    def _start_reward(self, work: Coroutine[Any, Any, float]) -> "Future[float]":
        if not self.reward_in_thread:
            assert self._loop is not None
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        future: Future[float] = Future()
        future.set_running_or_notify_cancel()  # it is stopped by closing its context

        def run() -> None:
            try:
                future.set_result(asyncio.run(work))
            except BaseException as error:  # noqa: BLE001 - raised where the reward is waited for
                future.set_exception(error)

        # A daemon, because a reward that never ends must not keep the program from ending.
        threading.Thread(target=run, name="hermes-reward", daemon=True).start()
        return future

    def _metadata(self, trace: Trace) -> Dict:
        result = result_of(trace)
        return {
            "task": trace.task_key,
            "rollout_id": trace.id,
            "model": trace.model,
            "turns_used": result.turns_used,
            "finished_naturally": result.finished_naturally,
            "exit_reason": trace.exit_reason,
            "tool_errors": result.tool_errors,
            "metrics": trace.metrics,
            "usage": trace.usage,
            "seconds": trace.seconds,
            "retried": trace.retried,
        }

    def _sample(self, item: Item, trace: Trace) -> Dict:
        branches = trace.branches()
        return {
            "item": item,
            "score": trace.reward,
            "failure": trace.failure,
            "messages": list(branches[-1].messages) if branches else [],
            **self._metadata(trace),
        }

    # Evaluation

    async def rollout_and_score_eval(self, item: Item) -> Dict:
        """Run an item once and return its sample: `score`, or None and `failure`."""
        return self._sample(item, await self.run_rollout(item))

    async def evaluate_items(self, items: Sequence[Item]) -> Dict:
        """Run each item once, at most `max_eval_workers` at the same time; return the metrics.

        Samples are written as soon as they are complete. Items that the file has a score of, for
        the same model and settings, are not run again. Raises `HermesError` if nothing is scored.
        """
        path, began = self.eval_folder / RESUMABLE, time.time()
        known = {line.get("fingerprint"): line for line in read_lines(path)}
        wanted = {self._fingerprint(item, place): item for place, item in enumerate(items)}
        done = {
            key: known[key]
            for key in wanted
            if key in known and known[key].get("score") is not None
        }
        if done:
            tell(f"{many(len(done), 'item')} of {len(wanted)} already have a score in {path}")
        _group_tools.set(None if self.config.distribution else self._resolve_tools_for_group())
        limit = asyncio.Semaphore(max(1, self.config.max_eval_workers))

        async def run(key: str, item: Item) -> None:
            async with limit:
                sample = await self.rollout_and_score_eval(item)
            done[key] = {"fingerprint": key, "step": self.curr_step, **sample}
            append_lines(path, [done[key]])
            score = sample.get("score")
            tell(f"{sample.get('task', key[:12])}: {'not scored' if score is None else score}")

        missing = [(key, item) for key, item in wanted.items() if key not in done]
        await run_all(run(key, item) for key, item in missing)
        metrics = self.eval_metrics(list(done.values()))
        await self.evaluate_log(metrics, start_time=began, end_time=time.time())
        if not metrics["eval/scored"]:
            raise HermesError("nothing was scored", hint=f"the reasons are in {path}")
        return metrics

    def eval_metrics(self, samples: Sequence[Dict]) -> Dict:
        """Return the numbers of an evaluation. Rollouts without a score count for nothing else."""
        scores = [each["score"] for each in samples if each.get("score") is not None]
        return {
            "eval/mean_reward": sum(scores) / len(scores) if scores else None,
            "eval/solved": sum(score >= 1 for score in scores) / len(scores) if scores else None,
            "eval/scored": len(scores),
            "eval/not_scored": len(samples) - len(scores),
        }

    def _fingerprint(self, item: Item, place: int) -> str:
        """Return a digest of all that a score depends on. Equal items differ by their place."""
        config = self.config
        names = (
            "enabled_toolsets", "disabled_toolsets", "distribution", "max_agent_turns",
            "agent_temperature", "system_prompt", "max_token_length", "extra_body",
            "terminal_backend",
        )  # fmt: skip
        settings = [getattr(config, name) for name in names]
        content = item.hash if isinstance(item, Task) else item
        model = self.server_configs[0].model_name
        return digest(content, place, model, settings, self.curr_step)

    # Life

    async def open_rollouts(self) -> None:
        """Start the runtime of rollouts. Further calls have no effect."""
        async with self._opening:
            if self._rollouts is None:
                self._rollouts = await self._start_rollouts()

    async def _start_rollouts(self) -> _Rollouts:
        config = self.config
        export_variable("TERMINAL_ENV", config.terminal_backend)
        standalone_tools().allow_rollouts(
            {
                "terminal.backend": config.terminal_backend,
                "terminal.timeout": config.terminal_timeout,
                "terminal.lifetime_seconds": config.terminal_lifetime,
            }
        )
        rollouts = _Rollouts(config)
        await asyncio.wrap_future(script_runtime().submit(rollouts.open()))
        return rollouts

    async def close_rollouts(self) -> None:
        rollouts, self._rollouts = self._rollouts, None
        if rollouts is not None:
            await asyncio.wrap_future(script_runtime().submit(rollouts.close()))
        await super().close_rollouts()


def item_key(item: Item) -> str:
    """Return a short stable name of an item: its id, or a part of its digest."""
    if isinstance(item, Mapping):
        for name in ("id", "task_id", "name", "instance_id"):
            if isinstance(item.get(name), str | int):
                return str(item[name])
    return digest(item)[:16]


def apply_patches() -> None:
    """Do nothing. Documented for `environments.patches`: nothing needs a patch here."""
