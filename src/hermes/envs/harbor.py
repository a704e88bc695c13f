"""Tasks in the Harbor format, schema 1.x: Terminal-Bench 2, TBLite and others.

A task is a folder with `task.toml`, `instruction.md`, `environment/`, `tests/test.sh` and, for the
oracle, `solution/solve.sh`. The agent works in a container of the image of the task. After it has
ended, the tests are copied into that container and write the reward.
"""

import hashlib
import io
import logging
import math
import os
import re
import shlex
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from hermes.core.errors import BackendUnavailable, UsageError
from hermes.envs.task import RolloutContext, Task, reward
from hermes.envs.taskset import select_tasks
from hermes.envs.trace import TaskError, Trace
from hermes.terminal import EngineClient
from hermes.util.concurrency import async_file_lock, in_thread

CONFIG = "task.toml"
CONTAINERS = ("docker", "modal", "daytona")
"""Backends on which a task may write /tests and /logs: each rollout has a container of its own."""
TESTS, SOLUTION, LOGS = "/tests", "/solution", "/logs/verifier"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
STARTED = "HERMES_CONTAINER"
"""Variable with the time when the container started. Variables survive a container that dies."""
START_TIME = "$(cut -d' ' -f22 /proc/1/stat)"
MAX_DEPTH = 6  #: Folders below a dataset in which tasks are looked for.
TAIL = 2000  #: Characters of the output of a script that an error shows.
CONTENT = (CONFIG, "instruction.md", "environment", "tests", "solution")
TABLE_COLUMNS = (("path", "task_binary"), ("task_id", "archive"))
"""Columns of a table of tasks: the name, and a tar archive of the folder."""

log = logging.getLogger(__name__)

# The settings in task.toml. Unknown keys are ignored.

Seconds = Annotated[float, msgspec.Meta(gt=0)]
NetworkMode = Literal["public", "no-network", "allowlist"]


class AgentConfig(msgspec.Struct, frozen=True):
    timeout_sec: Seconds | None = None
    user: str | int | None = None
    network_mode: NetworkMode | None = None


class VerifierConfig(msgspec.Struct, frozen=True):
    timeout_sec: Seconds = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: dict[str, Any] | None = None


class SolutionConfig(msgspec.Struct, frozen=True):
    env: dict[str, str] = {}


class EnvironmentConfig(msgspec.Struct, frozen=True):
    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: Seconds | None = None
    memory_mb: Annotated[int, msgspec.Meta(gt=0)] | None = None
    storage_mb: Annotated[int, msgspec.Meta(gt=0)] | None = None
    memory: str | None = None  #: Older spelling: `2G`.
    storage: str | None = None
    gpus: int | None = None
    tpu: dict[str, Any] | None = None
    mcp_servers: list[Any] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: dict[str, Any] | None = None
    workdir: str | None = None
    allow_internet: bool | None = None  #: Older spelling of `network_mode`.
    network_mode: NetworkMode | None = None

    @property
    def network(self) -> NetworkMode:
        """The mode while the container runs."""
        return self.network_mode or ("no-network" if self.allow_internet is False else "public")


class HarborConfig(msgspec.Struct, frozen=True):
    """The content of task.toml."""

    schema_version: str | float = ""
    version: str | float = ""  #: Older spelling.
    metadata: dict[str, Any] = {}
    agent: AgentConfig = AgentConfig()
    verifier: VerifierConfig = VerifierConfig()
    solution: SolutionConfig = SolutionConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    steps: list[Any] = []

    @classmethod
    def read(cls, file: Path) -> "HarborConfig":
        """Read a file. Raises `UsageError` with the file and the key that is wrong."""
        try:
            config = msgspec.toml.decode(file.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            what, _, key = str(error).partition(" - at `$.")
            where = f"{key.rstrip('`')}: " if key else ""
            raise UsageError(f"{file}: {where}{what}", hint=f"correct {file}") from error
        version = str(config.schema_version or config.version or "1.0")
        if version.partition(".")[0] != "1":
            raise UsageError(f"{file}: schema_version {version} is not supported, only 1.x")
        environment = msgspec.structs.replace(
            config.environment,
            memory_mb=config.environment.memory_mb
            or _megabytes(file, "memory", config.environment.memory),
            storage_mb=config.environment.storage_mb
            or _megabytes(file, "storage", config.environment.storage),
        )
        return msgspec.structs.replace(config, environment=environment)

    def unsupported(self, folder: Path) -> str:
        """Return what the task needs and Hermes cannot give it, or an empty text."""
        environment, verifier, network = self.environment, self.verifier, self.environment.network
        needs = {
            "several steps ([[steps]])": self.steps,
            "a separate verifier container": verifier.environment is not None
            or verifier.environment_mode == "separate",
            "several containers (docker-compose.yaml)": any(
                (folder / "environment").glob("docker-compose.y*ml")
            ),
            f"the operating system {environment.os}": environment.os.lower() != "linux",
            "a GPU or TPU": environment.gpus or environment.tpu,
            "MCP servers": environment.mcp_servers,
            "a skills folder (environment.skills_dir)": environment.skills_dir,
            "a health check": environment.healthcheck,
            "another user than root": {self.agent.user, verifier.user} - {None, "root", 0, "0"},
            "network access to listed hosts only (network_mode allowlist)": "allowlist"
            in (network, self.agent.network_mode, verifier.network_mode),
            "a network that changes between agent and verifier": {
                self.agent.network_mode or network,
                verifier.network_mode or network,
            }
            != {network},
        }
        return ", ".join(need for need, needed in needs.items() if needed)


def _megabytes(file: Path, key: str, size: str | None) -> int | None:
    if size is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([GMK])B?\s*", size, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{file}: environment.{key}: {size!r} is not a size such as 2G or 512M")
    factor = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}[found[2].upper()]
    return max(1, int(float(found[1]) * factor))


class HarborTask(Task, frozen=True):
    """A task folder. `image` is that of task.toml, or one that is built from the Dockerfile when
    the first rollout needs it."""

    path: str  #: The folder.
    digest: str  #: Of the content of the folder.
    config: HarborConfig
    unsupported: str = ""  #: What the task needs and Hermes cannot give it.

    @property
    def hash(self) -> str:
        """Digest of the content of the folder, wherever it is."""
        return self.digest

    @property
    def difficulty(self) -> str:
        return str(self.config.metadata.get("difficulty") or "unknown")

    @property
    def _is_built(self) -> bool:
        return not self.config.environment.docker_image

    def check(self, backend: str) -> None:
        """Raise `UsageError` if the task cannot run on this backend by its own rules."""
        if self.unsupported:
            raise UsageError(f"{self.name} needs {self.unsupported}, which Hermes does not support")
        if backend not in CONTAINERS:
            raise UsageError(
                f"{self.name} runs scripts as root and writes /tests and /logs: the backend"
                f" {backend} would change this machine",
                hint="use --backend docker",
            )
        if backend != "docker" and (self._is_built or self.config.environment.network != "public"):
            need = "an image from a Dockerfile" if self._is_built else "a container without network"
            raise UsageError(
                f"{self.name} needs {need}, which the backend {backend} does not have",
                hint="use --backend docker",
            )

    def container(self) -> dict[str, Any]:
        environment = self.config.environment
        limits = {
            "cpu": environment.cpus,
            "memory": environment.memory_mb,
            "disk": environment.storage_mb,
            "network": "none" if environment.network == "no-network" else None,
        }
        return {
            "persistent": False,
            "engine_defaults": True,
            "prepare": self.build_image if self._is_built else None,
            **{name: value for name, value in limits.items() if value is not None},
        }

    async def build_image(self, engine: EngineClient) -> None:
        """Build the image unless the engine has it. Raises `BackendUnavailable`."""
        folder, limit = Path(self.path, "environment"), self.config.environment.build_timeout_sec
        lock = Path(tempfile.gettempdir(), f"hermes-{os.getuid()}-{self.image.replace('/', '-')}")
        try:
            # Rollouts of the same task wait for one build, also those of other processes.
            async with async_file_lock(lock.with_suffix(".lock"), limit):
                if not (await engine.call("image", "inspect", "--", self.image)).exit_code:
                    return
                # A failed build would otherwise leave its container.
                flags = ("--force-rm", "--label", "hermes.image=1", "--tag", self.image)
                built = await engine.call("build", *flags, "--", str(folder), timeout=limit)
        except TimeoutError as error:
            raise BackendUnavailable(
                f"the image of {self.name} was not built in {limit:g} s",
                hint=f"see what `{engine.program} build {folder}` says",
            ) from error
        if built.exit_code:
            lines = [line for line in built.errors.splitlines() if line.strip()] or ["no reason"]
            raise BackendUnavailable(
                f"the image of {self.name} cannot be built: {lines[-1].strip()}",
                hint=f"see what `{engine.program} build {folder}` says",
            )

    async def setup(self, ctx: RolloutContext) -> None:
        if self.unsupported:
            raise TaskError(f"the task needs {self.unsupported}, which Hermes does not support")
        self.check(ctx.backend)
        workdir = shlex.quote(self.config.environment.workdir or ".")
        exports = shlex.join(f"{key}={value}" for key, value in self.config.environment.env.items())
        made = await ctx.terminal(
            f"mkdir -p /logs/agent {LOGS} {workdir} && cd {workdir} && "
            f'export {STARTED}="{START_TIME}" {exports}'
        )
        if made["exit_code"]:
            raise TaskError(f"the container is not usable as root: {_tail(made['output'])}")

    @reward
    async def verifier_reward(self, trace: Trace, ctx: RolloutContext) -> float:
        """Run the tests and return the reward that they wrote. Other numbers become metrics."""
        self.check(ctx.backend)
        # The new one has no files of the agent: a reward of 0 would be wrong.
        same = await ctx.terminal(f'export {PATH}; test "${STARTED}" = "{START_TIME}"')
        if same["exit_code"]:
            raise BackendUnavailable("the container was replaced during the rollout")
        # The agent may have made files there.
        await _checked(ctx, f"rm -rf {LOGS} {TESTS} {SOLUTION} && mkdir -p {LOGS}")
        await _upload(ctx, Path(self.path, "tests"), TESTS)
        limit = self.config.verifier.timeout_sec
        ran = await self._run(ctx, f"{TESTS}/test.sh", self.config.verifier.env, limit)
        if ran["exit_code"] == 124:
            raise TaskError(f"the verifier did not end in {limit:g} s: {_tail(ran['output'])}")
        rewards = await _read_rewards(ctx, ran["output"])
        trace.metrics.update({key: rewards[key] for key in rewards if key != "reward"})
        return rewards["reward"]

    async def solve(self, ctx: RolloutContext) -> None:
        """Run the solution of the task, as the oracle does. Raises `TaskError` if there is none."""
        solution = Path(self.path, "solution")
        if not (solution / "solve.sh").is_file():
            raise TaskError("the task has no solution/solve.sh")
        await _upload(ctx, solution, SOLUTION)
        variables = {"DEBIAN_FRONTEND": "noninteractive", **self.config.solution.env}
        limit = self.agent_timeout or 3600.0
        ran = await self._run(ctx, f"{SOLUTION}/solve.sh", variables, limit)
        if ran["exit_code"] == 124:
            raise TaskError(f"the solution did not end in {limit:g} s: {_tail(ran['output'])}")
        if not ran["output"].rstrip().endswith("exit code 0"):
            log.warning("the solution of %s failed: %s", self.name, _tail(ran["output"]))

    async def _run(
        self, ctx: RolloutContext, script: str, variables: Mapping[str, str], limit: float
    ) -> dict[str, Any]:
        """Run a script with the folder and the variables that the container began with, not with
        those that the agent left. The last line of the output has its exit code; the exit code of
        the result is 124 after a timeout."""
        given = {**self.config.environment.env, **variables}
        assignments = shlex.join(f"{name}={value}" for name, value in given.items())
        folder = shlex.quote(self.config.environment.workdir or "/proc/1/cwd")
        start = (
            f'cd -P {folder} && env -i "$@" {assignments} {script}; '
            'code=$?; echo; echo "exit code $code"'
        )
        return await ctx.terminal(
            f"export {PATH}; chmod +x {script}; "
            f"xargs -0 sh -c {shlex.quote(start)} sh </proc/1/environ",
            timeout=limit,
        )


async def _read_rewards(ctx: RolloutContext, output: str) -> dict[str, float]:
    for name in ("reward.json", "reward.txt"):
        try:
            text = (await ctx.read_file(f"{LOGS}/{name}"))["content"]
        except FileNotFoundError:
            continue
        return _parse_rewards(name, text)
    raise TaskError(f"the verifier wrote no reward: {_tail(output)}")


def _parse_rewards(name: str, text: str) -> dict[str, float]:
    """Return the numbers of a reward file; `reward` is one of them."""
    try:
        value = msgspec.json.decode(text, type=float | dict[str, float])
    except msgspec.DecodeError:
        try:  # `echo 1.` and `+1` are numbers, but not in JSON
            value = float(text)
        except ValueError:
            raise TaskError(f"{name} is not a reward: {text[:200]!r}") from None
    rewards = value if isinstance(value, dict) else {"reward": value}
    if not all(math.isfinite(each) for each in rewards.values()):
        raise TaskError(f"{name} has a number that is not finite: {text[:200]!r}")
    if "reward" not in rewards:
        raise TaskError(f"{name} has no reward, only {', '.join(rewards) or 'an empty object'}")
    return rewards


def _tail(output: str) -> str:
    return output.strip()[-TAIL:] or "it gave no output"


async def _checked(ctx: RolloutContext, command: str) -> None:
    done = await ctx.terminal(f"export {PATH}; {command}")  # the agent may have changed it
    if done["exit_code"]:
        raise TaskError(f"`{command}` failed in the container: {_tail(done['output'])}")


async def _upload(ctx: RolloutContext, folder: Path, target: str) -> None:
    """Copy a folder of this machine into the container, with the permissions of its files."""

    def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    def pack() -> bytes:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            archive.add(folder, ".", filter=as_root)
        return data.getvalue()

    packed = f"{target}.tar.gz"
    await ctx.write_file(packed, await in_thread(pack))
    await _checked(
        ctx, f"rm -rf {target} && mkdir {target} && tar -xzf {packed} -C {target} && rm {packed}"
    )


# Loading


def load_tasks(
    folder: str | Path,
    *,
    task_filter: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> list[HarborTask]:
    """Return the tasks in a folder, or the one that the folder is, in the order of their names.

    `task_filter` has names or glob patterns. `variables` are values for `${NAME}` in the `env` of
    tasks. Tables (*.parquet) with archives of tasks are unpacked into the folder `tasks` if there
    are no task folders. Raises `UsageError` for a task that is not valid, and if there is none.
    """
    root = Path(folder).expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}", hint=f"see `ls {root.parent}`")
    folders = list(_task_folders(root))
    if not folders and (tables := sorted(root.rglob("*.parquet"))):
        rows = (row for table in tables for row in read_table(table))
        unpack_tasks(rows, root / "tasks")
        folders = list(_task_folders(root))
    if not folders:
        raise UsageError(
            f"{root} has no Harbor tasks: no folder in it has a {CONFIG}",
            hint=f"find {root} -name {CONFIG}",
        )
    counts = Counter(path.name for path in folders)
    tasks = [
        _load_task(
            path,
            path.name if counts[path.name] == 1 else path.relative_to(root).as_posix(),
            variables or {},
        )
        for path in folders
    ]
    chosen = {task.key for task in select_tasks(tasks, task_filter)}
    return sorted((task for task in tasks if task.key in chosen), key=lambda task: task.key)


def _task_folders(root: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(root):
        if CONFIG in files:
            folders.clear()
            yield Path(path)
        elif len(Path(path).relative_to(root).parts) >= MAX_DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _load_task(folder: Path, name: str, variables: Mapping[str, str]) -> HarborTask:
    config = HarborConfig.read(folder / CONFIG)
    unsupported = [config.unsupported(folder)]
    missing: set[str] = set()

    def resolve(env: Mapping[str, str]) -> dict[str, str]:
        return {key: _resolve(value, variables, missing) for key, value in env.items()}

    replace = msgspec.structs.replace
    config = replace(
        config,
        environment=replace(config.environment, env=resolve(config.environment.env)),
        verifier=replace(config.verifier, env=resolve(config.verifier.env)),
        solution=replace(config.solution, env=resolve(config.solution.env)),
    )
    unsupported += [f"the variable {each}" for each in sorted(missing)]
    # A task of several steps has its instructions and tests elsewhere.
    for required in ("instruction.md", "tests/test.sh") if not config.steps else ():
        if not (folder / required).is_file():
            raise UsageError(f"{folder} has no {required}", hint=f"see `ls {folder}`")
    image = config.environment.docker_image
    if not image:
        if not (folder / "environment" / "Dockerfile").is_file() and not any(unsupported):
            raise UsageError(
                f"{folder} has neither environment.docker_image nor environment/Dockerfile"
            )
        slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "task"
        image = f"hermes-task/{slug}:{_digest([folder / 'environment'], folder)[:16]}"
    instruction = folder / "instruction.md"
    return HarborTask(
        name=name,
        prompt=_without_canary(instruction.read_text("utf-8")) if instruction.is_file() else "",
        image=image,
        agent_timeout=config.agent.timeout_sec or 0.0,
        path=str(folder),
        digest=_digest([folder / name for name in CONTENT], folder),
        config=config,
        unsupported=", ".join(need for need in unsupported if need),
    )


def _resolve(value: str, variables: Mapping[str, str], missing: set[str]) -> str:
    """Return the value of `${NAME}` or `${NAME:-default}`; other texts are as they are."""
    found = re.fullmatch(r"\$\{([^}:]+)(?::-(.*))?\}", value)
    if found is None:
        return value
    if found[1] not in variables and found[2] is None:
        missing.add(found[1])
    return variables.get(found[1], found[2] or "")


def _without_canary(text: str) -> str:
    """Remove the comments at the start that mark a file as benchmark data, as Harbor does."""
    lines = text.split("\n")
    while lines and re.match(r"\s*(<!--|#).*canary", lines[0], re.IGNORECASE):
        lines.pop(0)
    return "\n".join(lines).strip() + "\n"


def _digest(paths: Iterable[Path], root: Path) -> str:
    """Return a digest of names, permissions to execute, and contents."""
    digest = hashlib.sha256()
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    for file in sorted(files):
        if file.is_symlink():
            content = b"link " + bytes(file.readlink())
        elif file.is_file():
            mark = b"program " if os.access(file, os.X_OK) else b"file "
            content = mark + hashlib.sha256(file.read_bytes()).digest()
        else:
            continue
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + content + b"\n")
    return digest.hexdigest()


# Tables of archives, as some datasets are published.


def read_table(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a parquet file. Raises `UsageError` if pyarrow is not installed."""
    try:
        # Optional, and without type information: most datasets are folders or JSONL files.
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            f"reading {file.name} needs pyarrow", hint="pip install pyarrow"
        ) from error
    for batch in parquet.ParquetFile(file).iter_batches(batch_size=64):
        yield from batch.to_pylist()


def unpack_tasks(rows: Iterable[Mapping[str, Any]], target: Path) -> None:
    """Unpack the archives of a table, each into a folder of its own. The target appears when it is
    complete. Raises `UsageError` for rows without an archive."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpack-") as scratch:
        unpacked = Path(scratch, "tasks")
        unpacked.mkdir()
        for number, row in enumerate(rows, start=1):
            columns = next((pair for pair in TABLE_COLUMNS if set(pair) <= row.keys()), None)
            if columns is None:
                raise UsageError(
                    f"the table has the columns {', '.join(row)}; expected"
                    f" {' or '.join(' and '.join(pair) for pair in TABLE_COLUMNS)}",
                    hint="download the dataset as folders: harbor datasets download NAME -o FOLDER",
                )
            name = Path(str(row[columns[0]])).name or f"task-{number}"
            folder = unpacked / name
            if folder.exists():
                folder = unpacked / f"{name}-{number}"
            folder.mkdir()
            try:
                with tarfile.open(fileobj=io.BytesIO(row[columns[1]])) as archive:
                    archive.extractall(folder, filter="data")
            except (tarfile.TarError, TypeError) as error:
                raise UsageError(f"row {number} ({name}) is not a tar archive: {error}") from error
        unpacked.rename(target)
