"""`BaseEnv` of Atropos: an environment as a program with the modes serve, process and evaluate."""

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import logging
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import msgspec
import yaml

from hermes.compat.atropos_names import (
    APIServerConfig,
    BaseEnvConfig,
    ConfigModel,
    EnvConfigField,
    EvalHandlingEnum,
    Item,
    ScoredDataGroup,
    ServerManager,
    ServerManagerConfig,
    group_of,
)
from hermes.compat.atropos_names import (
    server_configs as server_configs_of,
)
from hermes.compat.runtime import close_all, tell
from hermes.core.errors import HermesError, UsageError
from hermes.envs.atropos import AtroposClient, AtroposStatus
from hermes.util.files import write_bytes
from hermes.util.text import many
from hermes.util.yaml_loader import load_yaml

log = logging.getLogger(__name__)

Mode = Literal["serve", "process", "evaluate"]
POLL_SECONDS = 1.0  #: Between two looks at the trainer's status while groups are collected.
INTERRUPTED = 130
SECRET = ("api_key",)  #: Fields that are neither shown nor written.
FAILURES = ".failures.jsonl"
"""Rollouts without a score are recorded in this file next to that of the rollouts."""


class BaseEnv:
    """Collects groups of scored rollouts. Subclasses implement `setup`, `get_next_item`,
    `collect_trajectory` or `collect_trajectories`, and `evaluate`."""

    name: ClassVar[str | None] = None
    env_config_cls: ClassVar[type[BaseEnvConfig]] = BaseEnvConfig

    def __init__(
        self,
        config: BaseEnvConfig,
        server_configs: Sequence[APIServerConfig] | APIServerConfig,
        slurm: bool = False,  # noqa: ARG002 - documented
        testing: bool = False,  # noqa: ARG002 - documented
    ) -> None:
        self.config = config
        self.server_configs = server_configs_of(server_configs)
        parser = getattr(config, "tool_call_parser", "hermes")
        self.server: Any = ServerManager(self.server_configs, parser)
        self.curr_step = 0
        self.unscored: list[dict[str, Any]] = []  #: Rollouts without a score, until written.
        self.scored_count = self.unscored_count = 0
        self._wandb: Any = None

    # For subclasses

    @classmethod
    def config_init(cls) -> tuple[BaseEnvConfig, list[APIServerConfig]]:
        return cls.env_config_cls(), [APIServerConfig()]

    async def setup(self) -> None:
        """Load what the environment needs. It is called once."""

    async def get_next_item(self) -> Item | None:
        """Return the next item, or None if there are no more."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_next_item")

    async def collect_trajectory(self, item: Item) -> tuple[Any, list[Item]]:
        """Return a scored rollout, or None, and further items."""
        raise NotImplementedError(f"{type(self).__name__} does not define collect_trajectory")

    async def collect_trajectories(self, item: Item) -> tuple[Any, list[Item]]:
        """Return a group of `group_size` rollouts of an item, and further items. A rollout that
        has no score is not in the group; a group without rollouts is None."""
        results = await asyncio.gather(
            *(self.collect_trajectory(item) for _ in range(self.config.group_size))
        )
        scored = [one for one, _more in results if one is not None]
        backlog = [each for _one, more in results for each in more]
        return (group_of(scored) if scored else None), backlog

    async def postprocess_histories(self, trajectories: Any) -> Any:
        """Change groups before they are written or sent."""
        return trajectories

    async def evaluate(self, *_args: Any, **_kwargs: Any) -> None:
        raise UsageError(f"{self.title} has no evaluation", hint="define the method evaluate")

    async def cleanup(self) -> None:
        """Called after each group."""

    async def wandb_log(self, wandb_metrics: Mapping[str, Any] | None = None) -> None:
        """Report metrics to Weights & Biases if it is installed, and in the log."""
        metrics = dict(wandb_metrics or {})
        log.info("%s, step %d: %s", self.title, self.curr_step, metrics)
        if not self.config.use_wandb or not metrics:
            return
        if self._wandb is None:
            if importlib.util.find_spec("wandb") is None:
                self._wandb = False
                tell("wandb is not installed: metrics are in the log only")
            else:
                self._wandb = import_module("wandb")
                self._wandb.init(
                    name=self.config.wandb_name or self.title, config=_jsonable(self.config)
                )
        if self._wandb:
            self._wandb.log(metrics, step=self.curr_step)

    async def evaluate_log(
        self,
        metrics: Mapping[str, Any],
        task_name: str | None = None,
        model_name: str | None = None,
        start_time: float | None = None,
        end_time: float | None = None,
        generation_parameters: Mapping[str, Any] | None = None,
        samples: Iterable[Any] | None = None,
        verbose: bool = True,
    ) -> None:
        """Write `metrics.json`, and `samples` to `samples.jsonl`, in the folder of evaluations.
        Without `samples` that file stays as it is."""
        folder = self.eval_folder
        folder.mkdir(parents=True, exist_ok=True)
        report = {
            "task_name": task_name or self.title,
            "model_name": model_name or self.server_configs[0].model_name,
            "start_time": start_time,
            "end_time": end_time if end_time is not None else time.time(),
            "generation_parameters": _jsonable(generation_parameters or {}),
            "config": _jsonable(self.config),
            "metrics": _jsonable(metrics),
        }
        if samples is not None:
            lines = [json.dumps(_jsonable(each), ensure_ascii=False) for each in samples]
            write_bytes(folder / "samples.jsonl", "".join(f"{x}\n" for x in lines).encode())
        write_bytes(folder / "metrics.json", json.dumps(report, indent=2).encode() + b"\n")
        await self.wandb_log(metrics)
        if verbose:
            for name, value in metrics.items():
                tell(f"{name}: {value}")
            tell(f"written: {folder / 'metrics.json'}")

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the configuration. Raises `UsageError` without `transformers`."""
        if importlib.util.find_spec("transformers") is None:
            raise UsageError(
                "a tokenizer needs the library transformers",
                hint="pip install transformers; or use self.server.managed_server()",
            )
        return import_module("transformers").AutoTokenizer.from_pretrained(
            self.config.tokenizer_name
        )

    # Modes

    @property
    def title(self) -> str:
        return self.name or type(self).__name__

    @property
    def eval_folder(self) -> Path:
        return Path(self.config.data_dir_to_save_evals or Path("evals", self.title))

    async def open_rollouts(self) -> None:
        """Prepare what rollouts need."""

    async def close_rollouts(self) -> None:
        """Stop what still runs, and close connections."""
        if isinstance(self.server, ServerManager):
            await self.server.close()

    async def process_manager(self) -> None:
        """Collect `total_steps` groups and write their rollouts. Raises `HermesError` if no
        rollout has a score."""
        path = Path(self.config.data_path_to_save_groups or f"{self.title}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        items = _Items(self, self.config.total_steps)
        pending: set[asyncio.Task[Any]] = set()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_cancel, pending)
            while True:
                while len(pending) < self.worker_limit and (item := await items.next()) is not None:
                    pending.add(asyncio.ensure_future(self.collect_groups(item, items.backlog)))
                if not pending:
                    break
                done, _ = await asyncio.wait(pending, return_when="FIRST_COMPLETED")
                pending -= done
                for each in done:
                    self.write_groups(path, each.result())
        written = many(self.scored_count, "rollout")
        tell(f"{written} written to {path}; without a score: {self.unscored_count}")
        if not self.scored_count:
            raise HermesError("no rollout has a score", hint=f"the reasons are in {_beside(path)}")

    async def env_manager(self) -> None:
        """Send groups to the API of Atropos until the trainer has made its steps."""
        config = self.config
        async with AtroposClient(config.rollout_server_url, tell=tell) as api:
            answer = await api.register(
                config.wandb_name or self.title,
                group_size=config.group_size,
                max_token_length=config.max_token_length,
                weight=config.inference_weight,
                min_batch_allocation=config.min_batch_allocation,
            )
            self.curr_step = answer.starting_step
            steps = [each for each in (answer.num_steps, config.total_steps) if each > 0]
            tell(f"registered as {answer.wandb_name or answer.env_id}")
            await _Serving(self, api, min(steps, default=0)).run()

    async def collect_groups(self, item: Item, backlog: list[Item]) -> list[ScoredDataGroup]:
        """Return the groups of an item, usually one, and add further items to the backlog."""
        collected, further = await self.collect_trajectories(item)
        backlog += further
        groups = await self.postprocess_histories(collected)
        await self.cleanup()
        found = groups if isinstance(groups, list) else [groups]
        return [group for group in found if group]

    def write_groups(self, path: Path | None, groups: Sequence[ScoredDataGroup]) -> None:
        """Count the rollouts. Append a line for each one to `path`, and the failures to their own
        file."""
        failures, self.unscored = self.unscored, []
        self.unscored_count += len(failures)
        self.scored_count += sum(len(group["scores"]) for group in groups)
        if path is not None:
            append_lines(path, [line for group in groups for line in _rollout_lines(group)])
            append_lines(_beside(path), failures)

    @property
    def worker_limit(self) -> int:
        config = self.config
        if config.max_num_workers > 0:
            return config.max_num_workers
        return max(1, config.max_num_workers_per_node) * len(self.server_configs)

    async def run_mode(self, mode: Mode) -> None:
        """Run the environment in a mode, and close it."""
        managers = {
            "serve": self.env_manager,
            "process": self.process_manager,
            "evaluate": self.evaluate,
        }
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, other threads
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            if isinstance(self.server, ServerManager):
                await self.server.check_health()
            await self.open_rollouts()
            await self.setup()
            await managers[mode]()
        finally:
            await asyncio.shield(self.close_rollouts())

    @classmethod
    def cli(cls, arguments: Sequence[str] | None = None) -> None:
        """Run the environment as the command line says. Ends the program with an exit code if it
        failed."""
        try:
            command = EnvCommand.parse(cls, sys.argv[1:] if arguments is None else arguments)
            asyncio.run(cls(command.config, command.servers).run_mode(command.mode))
        except HermesError as error:
            hint = f"\n  {error.hint}" if error.hint else ""
            _end(f"{error}{hint}", error.exit_code)
        except (KeyboardInterrupt, asyncio.CancelledError):
            _end("stopped; what was written until now is kept", INTERRUPTED)
        finally:
            close_all()


def _end(message: str, code: int) -> NoReturn:
    tell(f"{Path(sys.argv[0]).name}: {message}")
    raise SystemExit(code)


class _Items:
    """The items of an environment, with those that groups asked for."""

    def __init__(self, env: BaseEnv, limit: int = -1) -> None:
        self._env, self._left = env, limit
        self.backlog: list[Item] = []

    async def next(self) -> Item | None:
        if self.backlog:
            return self.backlog.pop(0)
        if self._left == 0:
            return None
        self._left -= 1
        item = await self._env.get_next_item()
        if item is None:
            self._left = 0
        return item


class _Serving:
    """The loop of `serve`: keeps workers busy while the trainer has room."""

    def __init__(self, env: BaseEnv, api: AtroposClient, steps: int) -> None:
        self._env, self._api, self._steps = env, api, steps
        self._items = _Items(env)
        self._groups: set[asyncio.Task[Any]] = set()
        self._evaluation: asyncio.Task[None] | None = None
        self._evaluated = env.curr_step
        self._is_exhausted = False

    async def run(self) -> None:
        try:
            while True:
                status = await self._api.status()
                self._env.curr_step = status.current_step
                if self._steps and status.current_step >= self._steps:
                    return
                self._evaluate_if_due()
                await self._start_groups(status)
                if not self._groups and self._is_exhausted:
                    return
                await self._finish_groups()
        finally:
            evaluation = {self._evaluation} if self._evaluation else set()
            await _cancel({*self._groups, *evaluation})

    def _evaluate_if_due(self) -> None:
        if self._evaluation is not None and self._evaluation.done():
            self._evaluation.result()
            self._evaluation = None
        every, step = self._env.config.steps_per_eval, self._env.curr_step
        if every > 0 and self._evaluation is None and step // every > self._evaluated // every:
            self._evaluated = step
            self._evaluation = asyncio.ensure_future(self._evaluate())

    async def _evaluate(self) -> None:
        try:
            await self._env.evaluate()
        except HermesError as error:  # the training goes on without it
            tell(f"the evaluation failed: {error}")

    async def _start_groups(self, status: AtroposStatus) -> None:
        config = self._env.config
        workers = self._env.worker_limit
        if self._evaluation is not None and config.eval_handling is EvalHandlingEnum.STOP_TRAIN:
            workers = 0
        elif self._evaluation is not None and config.eval_handling is EvalHandlingEnum.LIMIT_TRAIN:
            workers = int(workers * config.eval_limit_ratio)
        free = self._api.free_groups(status, config.group_size, config.max_batches_offpolicy)
        while len(self._groups) < min(workers, free):
            item = await self._items.next()
            if item is None:
                self._is_exhausted = True
                return
            work = self._env.collect_groups(item, self._items.backlog)
            self._groups.add(asyncio.ensure_future(work))

    async def _finish_groups(self) -> None:
        """Wait a moment for groups, and send those that are complete."""
        waiting = {*self._groups, *([self._evaluation] if self._evaluation else [])}
        if not waiting:
            await asyncio.sleep(POLL_SECONDS)
            return
        await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
        for done in [each for each in self._groups if each.done()]:
            self._groups.discard(done)
            groups = [fit for group in done.result() if (fit := self._fit(group)) is not None]
            path = self._env.config.data_path_to_save_groups
            self._env.write_groups(Path(path) if path else None, groups)
            await self._api.send(groups)
            counts = {"train/scored": self._env.scored_count}
            await self._env.wandb_log(counts | {"train/not_scored": self._env.unscored_count})

    def _fit(self, group: ScoredDataGroup) -> ScoredDataGroup | None:
        """Return the group without rollouts that are too long for the trainer; None if the rest
        teaches nothing."""
        longest = self._api.info.max_token_len
        kept = [
            place
            for place, tokens in enumerate(group["tokens"])
            if longest <= 0 or len(tokens) <= longest
        ]
        if dropped := len(group["tokens"]) - len(kept):
            tell(f"{many(dropped, 'rollout')} with more than {longest} tokens left out")
        fit: Any = {
            name: [value[place] for place in kept] if isinstance(value, list) else value
            for name, value in group.items()
        }
        if not self._env.config.include_messages:
            fit.pop("messages", None)
        scores = fit["scores"]
        same = self._env.config.ensure_scores_are_not_same and len(set(scores)) == 1
        return None if not scores or (same and len(group["scores"]) > 1) else fit


async def run_all(work: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Wait for all coroutines. The first exception stops the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


# Files


def _beside(path: Path) -> Path:
    return path.with_name(path.stem + FAILURES)


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append each value as a line of JSON, in one write."""
    lines = [json.dumps(_jsonable(each), ensure_ascii=False) for each in values]
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file. A last line that was cut off is removed from the file."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = []
    data, good = path.read_bytes(), 0
    for line in data.splitlines(keepends=True):
        try:
            found.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.DecodeError:
            break
        good += len(line)
    if data[good:].strip() and b"\n" in data[good:].rstrip(b"\n"):
        raise UsageError(
            f"{path}: line {len(found) + 1} is not JSON", hint="move the file, or correct the line"
        )
    if good < len(data):
        with path.open("r+b") as file:
            file.truncate(good)
    return found


def _rollout_lines(group: ScoredDataGroup) -> Iterable[dict[str, Any]]:
    for place, score in enumerate(group["scores"]):
        messages, metadata = group.get("messages"), group.get("metadata")
        line: dict[str, Any] = {"messages": messages[place] if messages else None, "reward": score}
        line["metadata"] = metadata[place] if metadata else {}
        for name in ("tokens", "masks", "inference_logprobs"):
            if values := group.get(name):
                line[name] = values[place]  # type: ignore[index]
        yield line


def _jsonable(value: Any) -> Any:
    """Return the value for JSON; what JSON cannot express becomes text."""
    if isinstance(value, ConfigModel):
        value = {name: each for name, each in value.model_dump().items() if name not in SECRET}
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def digest(*values: Any) -> str:
    """Return a digest of anything, as far as it can be written as JSON."""
    text = json.dumps([_jsonable(value) for value in values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# The command line

MODES: dict[str, str] = {
    "serve": "send scored groups to the API of Atropos (started with `run-api`)",
    "process": "write scored rollouts to a file; needs no API",
    "evaluate": "run the evaluation and write its results; needs no API",
}


class EnvCommand(msgspec.Struct, frozen=True):
    """A command line: the mode, and the configuration that results from all sources."""

    mode: Mode
    config: BaseEnvConfig
    servers: list[APIServerConfig]

    @classmethod
    def parse(cls, env: type[BaseEnv], arguments: Sequence[str]) -> "EnvCommand":
        """The command line overrides the YAML file, which overrides `config_init`. `--help` prints
        a text and ends the program. Raises `UsageError`."""
        config, servers = env.config_init()
        servers = server_configs_of(servers)
        if not arguments or {"-h", "--help"} & set(arguments):
            sys.stdout.write(_help(env, config, servers[0]))
            raise SystemExit(0 if arguments else 2)
        mode, *rest = arguments
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode!r}", hint=f"choose: {', '.join(MODES)}")
        given = _options(rest)
        sections = _read_yaml(given.pop("config", ""))
        known = {"env": type(config).fields(), "openai": APIServerConfig.fields()}
        config = config.model_copy(update=_checked(sections.get("env"), known["env"], "env"))
        servers = _servers(servers, sections.get("openai"))
        by_section: dict[str, dict[str, Any]] = {"env": {}, "openai": {}}
        for option, value in given.items():
            section, _, name = option.partition(".")
            if section in ServerManagerConfig.fields() and not name:
                continue
            if section not in by_section:
                raise UsageError(f"there is no option --{option}", hint="--help lists them")
            by_section[section] |= _checked({name: value}, known[section], f"--{section}")
        config = config.model_copy(update=by_section["env"])
        servers = [server.model_copy(update=by_section["openai"]) for server in servers]
        return cls(mode, config, servers)  # type: ignore[arg-type]


def _options(words: Sequence[str]) -> dict[str, str]:
    """Return the values by option. An option without a value is true."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"unexpected argument {word!r}", hint="options are --env.NAME VALUE")
        name, sign, value = word[2:].partition("=")
        if not sign:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        found[name] = value
    return found


def _read_yaml(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        sections = load_yaml(Path(path).read_text("utf-8")) or {}
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path} is not valid YAML: {error}") from error
    allowed = {"env", "openai", *ServerManagerConfig.fields()}
    if not isinstance(sections, dict) or not set(sections) <= allowed:
        raise UsageError(f"--config {path}: expected the sections env and openai")
    return sections


def _servers(
    servers: Sequence[APIServerConfig], section: Mapping[str, Any] | Sequence[Any] | None
) -> list[APIServerConfig]:
    """Return the servers with the values of the section `openai`: one object, or a list of them,
    which replaces the servers of `config_init`."""
    if not section:
        return list(servers)
    entries = [section] if isinstance(section, Mapping) else list(section)
    fields = APIServerConfig.fields()
    bases = [servers[min(place, len(servers) - 1)] for place in range(len(entries))]
    return [
        base.model_copy(update=_checked(entry, fields, "openai"))
        for base, entry in zip(bases, entries, strict=True)
    ]


def _checked(values: Any, fields: Mapping[str, EnvConfigField], where: str) -> dict[str, Any]:
    """Return the values in the types of their fields. Raises `UsageError`."""
    if not isinstance(values, Mapping | None):
        raise UsageError(f"{where}: expected names and values")
    for name in values or {}:
        if name not in fields:
            close = get_close_matches(str(name), fields, n=1)
            hint = f"did you mean {where}.{close[0]}?" if close else "--help lists the options"
            raise UsageError(f"there is no option {where}.{name}", hint=hint)
    return {
        name: fields[name].convert(value, f"{where}.{name}")
        for name, value in (values or {}).items()
    }


def _help(env: type[BaseEnv], config: BaseEnvConfig, server: APIServerConfig) -> str:
    title = env.name or env.__name__
    lines = [f"usage: {Path(sys.argv[0]).name} MODE [--config FILE] [--env.NAME VALUE …]"]
    lines += [f"       [--openai.NAME VALUE …]\n\nThe environment {title}.\n\nmodes:"]
    lines += [f"  {name:<10} {text}" for name, text in MODES.items()]
    lines += ["\n  --config FILE", "      YAML with the sections `env` and `openai`"]
    for section, model in (("env", config), ("openai", server)):
        lines.append(f"\n{section}:")
        for field in type(model).fields().values():
            shown = getattr(model, field.name) if field.name not in SECRET else "…"
            shown = shown.value if isinstance(shown, EvalHandlingEnum) else shown
            lines.append(f"  --{section}.{field.name} (default: {shown})")
            if field.description:
                lines.append(f"      {field.description}")
    lines.append("\nLists are JSON or separated by commas. Options override FILE.\n")
    return "\n".join(lines)
