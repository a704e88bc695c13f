"""Training runs: choose an environment, configure it, start a trainer, watch and stop it.

A trainer is a command of the user. Each run has a folder in the home, `rl/runs/ID`, which holds
everything about it: a run outlives the process that started it, and any process of this home can
watch and stop it. See `training_worker` for what happens inside a run.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hermes.config.environment import variables
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.envs.training_environments import (
    EnvironmentInfo,
    environment_folders,
    find_environments,
)
from hermes.util import files
from hermes.util.processes import end_group, is_process_gone, pipe, run_program, start_program
from hermes.util.text import clean

WORKER = "hermes.envs.training_worker"
# The names of the files in the folder of a run.
PLAN, STATE, CONFIG = "run.json", "state.json", "config.yaml"
LOG, METRICS, TRACES, CHECKED = "output.log", "metrics.jsonl", "traces.jsonl", "checked"
CHECK_SECONDS = 30 * 60  #: A run that goes on is shown at most this often.
START_SECONDS = 120.0
LOG_TAIL = 2_000  #: Characters of the log in a result.
MAX_METRICS = 40  #: Names in a result.
MAX_ROLLOUTS = 1_000  #: Of one test, for each model.
CONFIG_HINT = "rl_get_current_config shows the fields"


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does, as `run.json` in its folder says. The command, the model server and the
    keys are read from the settings, because they may hold secrets."""

    id: str
    home: str
    environment: str
    kind: str
    source: str
    config: dict[str, Any]
    model: str = ""
    test: "InferenceTest | None" = None


class InferenceTest(msgspec.Struct, frozen=True):
    """The rollouts of a test of a set of tasks."""

    urls: list[str]  #: The base URL of each rollout.
    steps: int  #: Tasks; the rollouts are divided among them.


class RunState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run is, as `state.json` in its folder says."""

    status: str  #: `starting`, `running`, `finished`, `failed`, `stopped` or `lost`.
    supervisor: str = ""  #: `process_name` of the supervisor.
    started_at: float = 0.0
    ended_at: float | None = None
    exit_code: int | None = None
    capture_url: str = ""
    message: str = ""

    @property
    def is_active(self) -> bool:
        return self.status in ("starting", "running")


class RolloutOutcome(msgspec.Struct, frozen=True):
    """The result of one rollout of a test."""

    task: str
    exit_reason: str
    reward: float | None
    failure: str = ""


class _Selection(msgspec.Struct):
    """The chosen environment and the changes to its configuration."""

    environment: str
    edits: dict[str, Any] = {}


def read_state(folder: Path) -> RunState:
    """Return the state of a run. A run whose supervisor has ended without a result is `lost`."""
    try:
        state = msgspec.json.decode((folder / STATE).read_bytes(), type=RunState)
    except FileNotFoundError:
        return RunState(status="lost", message="it was never started")
    if state.is_active and is_process_gone(state.supervisor):
        message = "its supervisor was ended from outside, and the trainer with it"
        return msgspec.structs.replace(state, status="lost", message=message)
    return state


def read_metrics(folder: Path) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line of the metrics; without such a file, of the lines of the log
    that are JSON objects."""
    path = folder / METRICS
    if not path.is_file() or not path.stat().st_size:
        path = folder / LOG
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            if not line.lstrip().startswith(b"{"):
                continue
            try:
                values = msgspec.json.decode(line)
            except msgspec.DecodeError:  # other output, or a line that is being written
                continue
            numbers = {
                str(name): value
                for name, value in values.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
            if numbers:
                yield numbers


def summarize_metrics(lines: Iterable[Mapping[str, float]]) -> dict[str, Any]:
    """Return the number of lines, and the first, last, lowest and highest value of each metric."""
    count, found = 0, dict[str, dict[str, float]]()
    for numbers in lines:
        count += 1
        for name, value in numbers.items():
            if name not in found and len(found) >= MAX_METRICS:
                continue
            seen = found.setdefault(name, {"first": value, "lowest": value, "highest": value})
            seen["last"] = value
            seen["lowest"] = min(seen["lowest"], value)
            seen["highest"] = max(seen["highest"], value)
    return {"lines": count, "metrics": found}


class TrainingService:
    """`core.ports.Trainer` for the runs of one home."""

    def __init__(self, home: Home, loaded: Loaded) -> None:
        self._home, self._loaded = home, loaded
        self._settings = loaded.settings.rl
        self._folder = home.root / "rl"

    # Environments and their configuration

    async def environments(self) -> list[dict[str, Any]]:
        chosen = self._selection()
        return [
            {
                "name": each.name,
                "kind": each.kind,
                "source": each.source,
                "description": each.description,
                "selected": chosen is not None and chosen.environment == each.name,
            }
            for each in self._find()
        ]

    async def select(self, name: str) -> dict[str, Any]:
        self._environment(name)
        self._save(_Selection(name))
        return await self.config()

    async def config(self) -> dict[str, Any]:
        selection = self._selected()
        environment = self._environment(selection.environment)
        changed = self._values(environment, selection)
        fields = {
            name: {
                "value": changed.get(name, default),
                **({"locked": True} if name in self._settings.locked else {}),
                **({"default": default} if changed.get(name, default) != default else {}),
            }
            for name, default in sorted({**self._settings.locked, **environment.fields}.items())
        }
        model = {"server": self._settings.server.url, "model": self._settings.server.model}
        return {"environment": environment.name, "model": model, "fields": fields}

    async def edit(self, field: str, value: Any) -> dict[str, Any]:
        selection = self._selected()
        environment = self._environment(selection.environment)
        if field in self._settings.locked:
            raise UsageError(f"{field} is locked by the user's setting rl.locked")
        if field not in environment.fields:
            raise UsageError(f"{environment.name} has no field {field!r}", hint=CONFIG_HINT)
        selection.edits[field] = _converted(field, value, environment.fields[field])
        self._save(selection)
        return {"environment": environment.name, "field": field, "value": selection.edits[field]}

    def _find(self) -> list[EnvironmentInfo]:
        folders = environment_folders(self._home.root, self._settings.environments)
        return find_environments(folders)

    def _environment(self, name: str) -> EnvironmentInfo:
        found = {each.name: each for each in self._find()}
        if name not in found:
            raise UsageError(
                f"there is no environment {name!r}",
                hint=f"rl_list_environments shows them: {', '.join(found)}",
            )
        return found[name]

    def _values(self, environment: EnvironmentInfo, selection: _Selection) -> dict[str, Any]:
        """Return what differs from the defaults in the code of the environment."""
        return {**environment.given, **selection.edits, **self._settings.locked}

    def _selection(self) -> _Selection | None:
        try:
            data = (self._folder / "selected.json").read_bytes()
            return msgspec.json.decode(data, type=_Selection)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _selected(self) -> _Selection:
        selection = self._selection()
        if selection is None:
            raise UsageError("no environment is selected", hint="use rl_select_environment first")
        return selection

    def _save(self, selection: _Selection) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_bytes(self._folder / "selected.json", msgspec.json.encode(selection))

    # Runs

    async def describe_start(self) -> str:
        selection = self._selected()
        model = self._settings.server.model or "a model"
        command = self._redact(self._settings.trainer_command)
        return f"train {model} on {selection.environment}: {command}"

    async def start(self) -> dict[str, Any]:
        if not self._settings.trainer_command.strip():
            raise UsageError(
                "no trainer is configured",
                hint="hermes config set rl.trainer_command 'COMMAND'",
            )
        folder, plan = self._make_folder(self._folder / "runs")
        try:
            result = await run_program(
                *self._worker("run", folder),
                seconds=START_SECONDS,
                cwd=folder,
                env=self._variables(),
            )
        except TimeoutError:
            raise UsageError(
                f"the run {plan.id} did not start in {START_SECONDS:.0f} seconds",
                hint=f"its files are in {folder}",
            ) from None
        if result.code != 0:
            raise UsageError(
                f"the run {plan.id} could not be started: {self._redact(result.errors.strip())}",
                hint=f"its files are in {folder}",
            )
        return self._record(plan.id)

    async def status(self, run_id: str) -> dict[str, Any]:
        folder = self._run_folder(run_id)
        state, mark = read_state(folder), folder / CHECKED
        if state.is_active:
            since = time.time() - mark.stat().st_mtime if mark.exists() else CHECK_SECONDS
            if since < CHECK_SECONDS:
                wait = (CHECK_SECONDS - since) / 60
                raise UsageError(
                    f"{run_id} is {state.status}; it was checked {since / 60:.0f} minutes ago",
                    hint=f"check it again in {wait:.0f} minutes; training takes hours",
                )
            mark.touch()
        metrics = await asyncio.to_thread(lambda: summarize_metrics(read_metrics(folder)))
        return {**self._record(run_id), **metrics, "log": self._log_tail(folder)}

    async def stop(self, run_id: str) -> dict[str, Any]:
        folder = self._run_folder(run_id)
        state = read_state(folder)
        if not state.is_active:
            raise UsageError(f"{run_id} is not running: it is {state.status}")
        pid = int(state.supervisor.split(":")[1])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        # The supervisor kills a trainer that does not end. It is another process, so it is polled.
        while read_state(folder).is_active:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        return self._record(run_id)

    async def results(self, run_id: str) -> dict[str, Any]:
        folder = self._run_folder(run_id)
        if read_state(folder).is_active:
            raise UsageError(
                f"{run_id} is still running", hint="rl_check_status shows how far it is"
            )
        metrics = await asyncio.to_thread(lambda: summarize_metrics(read_metrics(folder)))
        traces = await asyncio.to_thread(_count_lines, folder / TRACES)
        record = {**self._record(run_id), **metrics, "traces": traces}
        return {**record, "folder": str(folder), "log": self._log_tail(folder)}

    async def runs(self) -> list[dict[str, Any]]:
        plans = sorted((self._folder / "runs").glob(f"*/{PLAN}"), reverse=True)
        return [self._record(path.parent.name) for path in plans]

    def _make_folder(
        self, parent: Path, *, model: str = "", test: InferenceTest | None = None
    ) -> tuple[Path, RunPlan]:
        """Make the folder of a run or a test, with its plan."""
        selection = self._selected()
        environment = self._environment(selection.environment)
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        folder = parent / run_id
        folder.mkdir(mode=0o700, parents=True)
        plan = RunPlan(
            id=run_id,
            home=str(self._home.root),
            environment=environment.name,
            kind=environment.kind,
            source=environment.source,
            config=self._values(environment, selection),
            model=model or self._settings.server.model,
            test=test,
        )
        files.write_bytes(folder / PLAN, msgspec.json.encode(plan))
        return folder, plan

    def _run_folder(self, run_id: str) -> Path:
        folder = self._folder / "runs" / run_id
        if not run_id or "/" in run_id or not (folder / PLAN).is_file():
            raise UsageError(f"there is no run {run_id!r}", hint="rl_list_runs shows them")
        return folder

    def _record(self, run_id: str) -> dict[str, Any]:
        folder = self._run_folder(run_id)
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=RunPlan)
        state = read_state(folder)
        end = state.ended_at or time.time()
        record: dict[str, Any] = {
            "run_id": run_id,
            "environment": plan.environment,
            "model": plan.model,
            "status": state.status,
            "minutes": round((end - state.started_at) / 60, 1) if state.started_at else 0,
            "exit_code": state.exit_code,
            "message": self._redact(state.message),
        }
        return {name: value for name, value in record.items() if value not in (None, "")}

    def _log_tail(self, folder: Path) -> str:
        try:
            with (folder / LOG).open("rb") as file:
                file.seek(max(0, (folder / LOG).stat().st_size - LOG_TAIL * 4))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return self._redact(clean(text))[-LOG_TAIL:]

    def _redact(self, text: str) -> str:
        for secret in self._loaded.secrets():
            text = text.replace(secret, "[removed]")
        return text

    def _worker(self, mode: str, folder: Path) -> tuple[str, ...]:
        return (sys.executable, "-m", WORKER, mode, str(folder))

    def _variables(self) -> dict[str, str]:
        return {**variables(), "HERMES_HOME": str(self._home.root)}

    # Tests of environment and model

    async def test_inference(
        self, num_steps: int, group_size: int, models: Sequence[str]
    ) -> dict[str, Any]:
        server = self._settings.server
        if not server.url:
            raise UsageError(
                "no model server is configured", hint="hermes config set rl.server.url URL"
            )
        if not 1 <= num_steps * group_size <= MAX_ROLLOUTS:
            raise UsageError(f"a test has 1 to {MAX_ROLLOUTS:,} rollouts")
        # Not for the other operations: a chat that only looks at runs does not need them.
        from hermes.envs.training_worker import open_capture

        results = {}
        for model in models or [server.model]:
            async with open_capture(self._loaded, model) as capture:
                root = capture.url("").removesuffix("//v1")
                outcomes = await self._rollouts(root, model, num_steps, group_size)
                traces = [capture.trace(name) for name in capture.rollouts()]
            failures = Counter(each.failure for each in outcomes if each.failure)
            rewards = [each.reward for each in outcomes if each.reward is not None]
            results[model or "default"] = {
                "rollouts": len(outcomes),
                "model_calls": sum(node.sampled for trace in traces for node in trace.nodes),
                "token_exact": bool(traces) and all(trace.token_exact for trace in traces),
                "rewards": rewards,
                "mean_reward": sum(rewards) / len(rewards) if rewards else None,
                "exit_reasons": dict(Counter(each.exit_reason for each in outcomes)),
                "failures": {self._redact(why): count for why, count in failures.most_common(5)},
            }
        return {"environment": self._selected().environment, "models": results}

    async def _rollouts(
        self, root: str, model: str, num_steps: int, group_size: int
    ) -> list[RolloutOutcome]:
        """Run rollouts in a process of their own, because the environment is foreign code."""
        urls = [f"{root}/test-{number}/v1" for number in range(num_steps * group_size)]
        test = InferenceTest(urls, num_steps)
        folder, plan = self._make_folder(self._folder / "tests", model=model, test=test)
        try:
            if plan.kind == "script":
                return await self._run_script(folder, plan, urls[0], num_steps, group_size)
            output = await self._run_test(self._worker("test", folder))
            return [msgspec.json.decode(line, type=RolloutOutcome) for line in output.splitlines()]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _run_script(
        self, folder: Path, plan: RunPlan, url: str, num_steps: int, group_size: int
    ) -> list[RolloutOutcome]:
        """Run an environment script in its mode `process`."""
        groups = folder / "groups.jsonl"
        given = {"total_steps": num_steps, "group_size": group_size, "use_wandb": False}
        env = {**plan.config, **given, "data_path_to_save_groups": str(groups)}
        openai = {"base_url": url, "model_name": plan.model, "server_type": "openai"}
        config = yaml.safe_dump({"env": env, "openai": openai}, sort_keys=False)
        files.write_text(folder / CONFIG, config)
        command = (sys.executable, "-m", "hermes", "run", plan.source, "process", "--config")
        await self._run_test((*command, str(folder / CONFIG)))
        lines = groups.read_bytes().splitlines() if groups.exists() else []
        rewards = [msgspec.json.decode(line).get("reward") for line in lines]
        return [RolloutOutcome(plan.environment, "processed", reward) for reward in rewards]

    async def _run_test(self, command: Sequence[str]) -> bytes:
        """Return the output of a test. Raises `UsageError` with the end of its errors."""
        process = await start_program(
            *command,
            env=self._variables(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await asyncio.gather(
                pipe(process.stdout).read(), pipe(process.stderr).read()
            )
            code = await process.wait()
        finally:
            end_group(process)  # with what it started, also if the test is cancelled
            await process.wait()
        if code != 0:
            why = self._redact(clean(errors.decode("utf-8", "replace")).strip())
            raise UsageError(f"the test ended with exit code {code}: {why[-LOG_TAIL:]}")
        return output


def _converted(field: str, value: Any, default: Any) -> Any:
    """Return a value in the type of the default. Raises `UsageError`."""
    if default is None or value is None:
        return value
    kind = float if isinstance(default, float) else type(default)
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{field} is of the type {kind.__name__}: {error}", hint=CONFIG_HINT
        ) from error


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for _line in file)
