"""Execute one run of a job: prepare the prompt, let an agent answer it, deliver the answer.

The session id of a run follows from job and instant. A run that another process left unfinished
continues in that session: a finished answer is delivered, an interrupted turn is resumed, and tool
calls that were made are not repeated.
"""

import asyncio
import hashlib
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes.agent import Agent
from hermes.app import SessionRequest, latest_session
from hermes.config.environment import child_environment
from hermes.config.settings import CronSettings
from hermes.core.errors import HermesError, LeaseLost, SessionNotFound, UsageError
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Assistant, Message
from hermes.core.ports import Attachments, Clock, Outbox
from hermes.cron.job import LOCAL, Job, JobLimits, check_prompt, intersect_toolsets
from hermes.cron.job_store import open_job_store
from hermes.cron.schedule import format_local, format_timestamp, resolve_timezone
from hermes.memory import MemoryScope
from hermes.store import Run
from hermes.util import files
from hermes.util.processes import end_group, start_program
from hermes.util.text import cut_middle, plain

if TYPE_CHECKING:
    from hermes.app import App

log = logging.getLogger(__name__)

SILENT = "[SILENT]"  #: An answer that starts with this is stored but not sent.
SYSTEM_MESSAGE = (
    f"If there is nothing worth reporting, answer only {SILENT}; then no message is sent."
)
MAX_CONTEXT = 10_000  #: Characters taken from the result of another job.
MAX_SCRIPT_CHARS = 50_000
MAX_SCRIPT_ERROR_CHARS = 2_000
MAX_SCRIPT_BYTES = 5_000_000  #: A script that prints more is killed.
INTERRUPT_TIMEOUT = 30.0  #: Seconds that an idle turn has to end after it was interrupted.
DEFAULT_SCRIPT_TIMEOUT = CronSettings().script_timeout_seconds


class JobFailed(HermesError):
    """A run ended without an answer."""


class JobRunner:
    """The `Runner` that executes jobs with agents of the app."""

    def __init__(self, app: "App", clock: Clock, outbox: Outbox | None = None) -> None:
        settings = app.loaded.settings
        self._app, self._clock = app, clock
        self._zone = resolve_timezone(settings.timezone)
        self._jobs = open_job_store(app.home, app.loaded, app.store.runs, self._zone)
        wrap, notify = settings.cron.wrap_response, settings.cron.notify_failures
        self._deliverer = Deliverer(app.home.cron / "output", self._zone, outbox, wrap, notify)

    async def run(self, job: Job, run: Run) -> Run:
        if run.state == "undelivered":
            return await self._deliver_again(job, run)
        run = replace(
            run,
            state="running",
            started_at=run.started_at or self._now(),
            session_id=run.session_id or session_id_for(run),
        )
        await self._app.store.runs.report(run)
        execution = _Execution(job, run)
        # The agent stays open until the answer is stored: its files are read where it worked.
        async with AsyncExitStack() as stack:
            try:
                await self._execute(execution, stack)
                is_silent = execution.answer.lstrip().upper().startswith(SILENT)
                ended = replace(execution.run, state="silent" if is_silent else "ok")
            except LeaseLost:
                raise
            except (HermesError, OSError) as error:
                hint = getattr(error, "hint", "")
                message = f"{error}{hint and f' ({hint})'}"
                log.warning("the job %s failed: %s", job.name, message)
                ended = replace(execution.run, state="failed", error=message)
            return await self._deliver(execution, ended)

    async def abandon(self, job: Job, run: Run) -> Run:
        error = f"the process that ran it died {run.attempt - 1} times"
        return await self._deliver(_Execution(job, run), replace(run, state="lost", error=error))

    async def confirm(self, job: Job, run: Run) -> Run:
        """Return a finished run with what became of its messages."""
        return await self._deliverer.confirm(job, run)

    async def _deliver_again(self, job: Job, run: Run) -> Run:
        answer = self._app.redactor.redact(await self.load_answer(run))
        if not answer:
            return replace(run, delivered="the answer was deleted before it could be delivered")
        sent = await self._deliverer.send_answer(job, run, answer)
        return await self._deliverer.confirm(job, replace(run, **sent))

    async def load_answer(self, run: Run) -> str:
        """Return the answer of a finished run; "" if neither session nor output file is left."""
        try:
            answer = final_answer(await self._app.store.messages(run.session_id))
        except HermesError:
            answer = None  # the session was deleted
        if answer is None and run.output:
            try:
                answer = Path(run.output).read_text(encoding="utf-8")
            except OSError:
                return ""
        return answer or ""

    async def _deliver(self, execution: "_Execution", run: Run) -> Run:
        redact, job = self._app.redactor.redact, execution.job
        answer, prompt = redact(execution.answer), redact(execution.prompt)
        run = replace(run, ended_at=self._now(), error=redact(run.error))
        try:
            run = replace(run, output=str(self._deliverer.write_output(job, run, prompt, answer)))
        except OSError as error:
            run = replace(run, error=f"{run.error} (no output file: {error})".strip())
        # This raises `LeaseLost` if another process owns the run by now and will deliver it. The
        # run stays open until it is delivered, so that a crash here does not lose the answer.
        await self._app.store.runs.report(replace(run, state="running", ended_at=None))
        if run.state == "ok":
            attachments = execution.attachments
            sent = await self._deliverer.send_answer(job, run, answer, attachments)
            return replace(run, **sent)
        if run.state == "silent":
            return replace(run, delivered="nothing to report")
        return replace(run, delivered=await self._deliverer.send_failure(job, run))

    async def _execute(self, execution: "_Execution", stack: AsyncExitStack) -> None:
        """Let an agent answer, and store the answer in `execution`. Raises `HermesError`."""
        app, job = self._app, execution.job
        check_prompt(job.prompt)
        session_id = execution.run.session_id
        with suppress(SessionNotFound):  # a compaction may not be reported yet
            session_id = await latest_session(app.store, session_id)
        agent = await app.agent(self._session_request(execution, session_id))
        stack.push_async_callback(app.leave, agent)
        execution.attachments = app.session(agent).attachments
        if (answer := final_answer(agent.history)) is not None:
            execution.answer = answer
            return
        if agent.unfinished:
            events = agent.resume()
        else:
            execution.prompt, script_error = await self._build_prompt(job)
            execution.run = replace(execution.run, error=script_error)
            events = agent.run(await app.opened(agent, execution.prompt))
        end = await self._watch(execution, agent, events)
        execution.answer = end.text
        if not (end.completed or end.partial):
            raise JobFailed(end.error or f"no answer: {end.exit_reason}", hint=end.hint)

    async def _watch(
        self, execution: "_Execution", agent: Agent, events: AsyncGenerator[Event, None]
    ) -> TurnFinished:
        """Return the end of the turn, which is stopped when it is idle for too long."""
        watchdog = _IdleWatchdog(agent, self._app.loaded.settings.cron.timeout_seconds)
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    watchdog.reset()
                    if agent.session_id != execution.run.session_id:  # after a compaction
                        execution.run = replace(execution.run, session_id=agent.session_id)
                        await self._app.store.runs.report(execution.run)
                    if isinstance(event, TurnFinished):
                        if watchdog.fired:
                            raise JobFailed(watchdog.reason)
                        return event
        except asyncio.CancelledError:
            if watchdog.gave_up:
                raise JobFailed(watchdog.reason) from None
            raise
        finally:
            watchdog.stop()
        raise JobFailed("the turn ended without an answer")

    def _session_request(self, execution: "_Execution", session_id: str) -> SessionRequest:
        job = execution.job
        limits = job.limits or JobLimits()
        folder = Path(job.workdir or limits.folder or self._app.loaded.settings.gateway.cwd)
        folder = folder.expanduser()
        if not folder.is_dir():
            raise UsageError(f"the working folder {folder} does not exist")
        toolsets = intersect_toolsets(job.enabled_toolsets, limits.toolsets)
        return SessionRequest(
            folder,
            session_id=session_id,
            source="cron",
            user_id=limits.user,
            scope=MemoryScope(user=limits.user),
            skills=job.skills,
            about=job.prompt,
            toolsets=(*toolsets, "-cronjob", "-clarify") if toolsets else (),
            goes_on=False,
            system_message=SYSTEM_MESSAGE,
            skip_context_files=not job.workdir,
            model=job.model,
            provider=job.provider,
            base_url=job.base_url,
            budget_usd=job.budget_usd,
            backend=limits.backend,
            origin=job.origin,
            user_day_usd=limits.day_usd,
            sends_files=not limits.no_files,
            persists=not limits.no_files,  # both are rights that guests do not have
            shared_folders=(self._deliverer.output_path(execution.run).parent,),
        )

    async def _build_prompt(self, job: Job) -> tuple[str, str]:
        """Return results of other jobs, script output and prompt as one text, and script errors."""
        parts = [await self._context(name) for name in job.context_from]
        error = ""
        if job.script:
            home, loaded = self._app.home, self._app.loaded
            passthrough = loaded.settings.terminal.env_passthrough
            environment = child_environment(passthrough, loaded.saved)
            environment["HERMES_HOME"] = str(home.root)
            cwd = Path(job.workdir).expanduser() if job.workdir else home.scripts
            timeout = self._script_timeout()
            result = await run_script(home.scripts, job.script, timeout, environment, cwd)
            text = f"Output of the script {job.script}:\n\n{result.output}"
            if result.problem:
                error = f"the script failed: {result.problem}"
                output = text if result.output else ""
                text = f"The script {job.script} FAILED: {result.problem}\n\n{output}"
            parts.append(text.strip())
        return "\n\n".join(part for part in (*parts, job.prompt) if part), error

    async def _context(self, name: str) -> str:
        """Return the newest answer of another job."""
        other = next((job for job in await self._jobs.all() if name in (job.id, job.name)), None)
        if other is None:
            return f"The job {name!r}, whose result belongs here, no longer exists."
        for run in await self._app.store.runs.history(other.id):
            if run.state in ("ok", "silent", "undelivered") and (
                text := await self.load_answer(run)
            ):
                title = (
                    f"Result of the job {other.name!r} ({format_local(run.instant, self._zone)})"
                )
                return f"{title}:\n\n{cut_middle(text, MAX_CONTEXT)}"
        return f"The job {other.name!r}, whose result belongs here, has none yet."

    def _script_timeout(self) -> float:
        """Return the timeout in seconds; 0 is none.

        The documented variable `cron.scheduler._SCRIPT_TIMEOUT` comes before the environment
        variable, and that before the setting.
        """
        loaded, scheduler = self._app.loaded, sys.modules.get("cron.scheduler")
        override = getattr(scheduler, "_SCRIPT_TIMEOUT", DEFAULT_SCRIPT_TIMEOUT)
        if isinstance(override, int | float) and override != DEFAULT_SCRIPT_TIMEOUT:
            return float(override)
        try:
            return max(0.0, float(loaded.variable("HERMES_CRON_SCRIPT_TIMEOUT") or ""))
        except ValueError:
            return loaded.settings.cron.script_timeout_seconds

    def _now(self) -> float:
        return self._clock.now().timestamp()


class _Execution:
    """A run in progress; its prompt and answer are kept when it fails."""

    def __init__(self, job: Job, run: Run) -> None:
        self.job, self.run = job, run
        self.prompt = self.answer = ""
        self.attachments: Attachments | None = None
        """Files that the answer may send; None while no agent is open."""


class _IdleWatchdog:
    """Interrupts a turn without events, and cancels it if it does not end then."""

    def __init__(self, agent: Agent, timeout: float) -> None:
        self._agent, self._timeout = agent, timeout
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self.fired = self.gave_up = False
        self.reason = f"no activity for {timeout:g} seconds (cron.timeout_seconds)"
        self.reset()

    def reset(self) -> None:
        if self._timeout and not self.fired:
            self.stop()
            self._timer = self._loop.call_later(self._timeout, self._interrupt)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _interrupt(self) -> None:
        self.fired = True
        self._agent.interrupt(self.reason, by_user=False)
        self._timer = self._loop.call_later(INTERRUPT_TIMEOUT, self._give_up)

    def _give_up(self) -> None:
        self.gave_up = True
        if self._task is not None:
            self._task.cancel()


def session_id_for(run: Run) -> str:
    """Return the session id of a run: the same in every process."""
    moment = datetime.fromtimestamp(run.instant, UTC)
    key = f"{run.job_id}:{format_timestamp(run.instant)}"
    return f"{moment:%Y%m%d_%H%M%S}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def final_answer(history: tuple[Message, ...]) -> str | None:
    """Return the answer that a conversation ended with; None if it did not end with one."""
    last = history[-1] if history else None
    return last.text if isinstance(last, Assistant) and not last.calls else None


class ScriptResult(msgspec.Struct, frozen=True):
    output: str
    problem: str = ""  #: Why the script failed; "" if it did not.


def resolve_script(folder: Path, name: str) -> Path:
    """Return the path of a script. Raises `UsageError` if it is not in `folder`, links resolved."""
    path = Path(os.path.realpath(folder / name.partition("\0")[0]))
    if "\0" in name or not path.is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"the script {name!r} is not in {folder}", hint="move it there")
    if path.suffix != ".py":
        raise UsageError(f"the script {name!r} is not a Python file (.py)")
    if not path.is_file():
        raise UsageError(f"there is no script {name!r} in {folder}")
    return path


async def run_script(
    folder: Path, name: str, timeout: float, environment: Mapping[str, str], cwd: Path
) -> ScriptResult:
    """Run a script and return what it printed. Failures are returned too, for the agent to see."""
    try:
        process = await start_program(
            sys.executable,
            str(resolve_script(folder, name)),
            cwd=cwd,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except UsageError as error:
        return ScriptResult("", str(error))
    except OSError as error:
        return ScriptResult("", f"it could not be started: {error.strerror or error}")
    problem, out, err = "", bytearray(), bytearray()
    try:
        async with asyncio.timeout(timeout or None):
            await asyncio.gather(_read(process.stdout, out), _read(process.stderr, err))
            await process.wait()
    except TimeoutError:
        problem = f"it took more than {timeout:g} seconds"
    except OverflowError:
        problem = f"it printed more than {MAX_SCRIPT_BYTES:,} bytes"
    finally:
        end_group(process)
        await process.wait()
    if not problem and process.returncode:
        problem = f"exit code {process.returncode}"
    if problem and (message := _decode(err, MAX_SCRIPT_ERROR_CHARS)):
        problem = f"{problem}\n{message}"
    return ScriptResult(_decode(out, MAX_SCRIPT_CHARS), problem)


async def _read(stream: asyncio.StreamReader | None, buffer: bytearray) -> None:
    while stream is not None and (data := await stream.read(65_536)):
        buffer += data
        if len(buffer) > MAX_SCRIPT_BYTES:
            raise OverflowError


def _decode(data: bytearray, limit: int) -> str:
    return cut_middle(plain(data.decode("utf-8", "replace")).strip(), limit)


# Results: an output file for every run, and messages to chats through the outbox.

QUEUED = "queued for"  #: Begins the delivery of a message that the outbox has not sent yet.
NOT_SENT = "not sent to"  #: Begins the delivery of a message that could not be stored.
MAX_OUTPUT_FILES = 500
"""Files kept per job. A job that runs each minute writes that many in a working day."""
_OUTPUT_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z\.md")


class Deliverer(msgspec.Struct, frozen=True):
    """Delivers results. A message sent again after a crash has the same key and arrives once."""

    folder: Path  #: `<home>/cron/output`.
    zone: tzinfo
    outbox: Outbox | None = None  #: None if no chat platform is connected.
    wrap: bool = True  #: Put the job's name above an answer and a note below it.
    notify: bool = True  #: Send a message when a run fails.

    def output_path(self, run: Run) -> Path:
        # Hand-written ids may contain anything, and some file systems do not allow colons.
        folder = re.sub(r"[^\w-]", "_", run.job_id)
        return self.folder / folder / f"{format_timestamp(run.instant).replace(':', '-')}.md"

    def write_output(self, job: Job, run: Run, prompt: str, answer: str) -> Path:
        """Write the output file and delete the oldest ones of the job. Raises `OSError`."""
        path = self.output_path(run)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = {
            "job": job.id,
            "due": f"{format_local(run.instant, self.zone)} ({format_timestamp(run.instant)})",
            "schedule": job.schedule.display if job.schedule else "",
            "state": run.state,
            "session": run.session_id,
            "error": run.error,
        }
        head = "\n".join(f"- {name}: {value}" for name, value in fields.items() if value)
        asked = f"## Prompt\n\n{prompt.strip()}\n\n" if prompt else ""
        text = f"# {job.name}\n\n{head}\n\n{asked}## Response\n\n{answer.strip()}\n"
        files.write_text(path, text, mode=0o600)
        # The user's own files in the folder are left alone.
        written = [each for each in path.parent.iterdir() if _OUTPUT_NAME.fullmatch(each.name)]
        for old in sorted(written)[:-MAX_OUTPUT_FILES]:
            old.unlink(missing_ok=True)
        return path

    async def send_answer(
        self, job: Job, run: Run, answer: str, attachments: Attachments | None = None
    ) -> dict[str, Any]:
        """Send the answer to the job's chats, with the files it names as far as `attachments`
        allows. Return `state` and `delivered` of the run."""
        if self.wrap:
            note = "— Sent by a scheduled job. The agent of this chat cannot see this message."
            answer = f"⏰ {job.name} (job {job.id})\n\n{answer.strip()}\n\n{note}"
        delivered, complete = await self._send(job, run, answer, attachments=attachments)
        return {"state": "ok" if complete else "undelivered", "delivered": delivered}

    async def confirm(self, job: Job, run: Run) -> Run:
        """Return a run with the state of its messages in the outbox."""
        results, state = [], run.state
        for target in job.targets:
            if target == LOCAL or self.outbox is None:
                continue
            try:
                found = await self.outbox.delivered(self._key(job, run, target))
            except UsageError:
                return run  # it was never stored, or the targets of the job were changed
            if found in ("sent", "pending"):
                results.append(f"{'sent to' if found == 'sent' else QUEUED} {target}")
            else:
                results.append(f"not delivered to {target}: {found}")
                state = "undelivered"
        return replace(run, state=state, delivered="; ".join(results) or run.delivered)

    def _key(self, job: Job, run: Run, target: str) -> str:
        return f"cron:{job.id}:{format_timestamp(run.instant)}:{target}"

    async def send_failure(self, job: Job, run: Run) -> str:
        """Notify the job's chats of a failed run; return a summary for the history."""
        if not self.notify:
            return ""
        verb = "was lost" if run.state == "lost" else "failed"
        due = format_local(run.instant, self.zone)
        text = (
            f"⚠️ The scheduled job {job.name!r} ({job.id}), due {due}, {verb}: {run.error}\n"
            f"For details: `hermes cron runs {job.id}`"
        )
        return (await self._send(job, run, text, ":failed"))[0]

    async def _send(
        self,
        job: Job,
        run: Run,
        text: str,
        key_suffix: str = "",
        attachments: Attachments | None = None,
    ) -> tuple[str, bool]:
        """Return a summary, and whether the messages to all chats were stored."""
        results: list[str] = []
        complete = True
        for target in job.targets:
            if target == LOCAL:
                continue
            if self.outbox is None:
                results.append(f"{NOT_SENT} {target}: no chat platform is connected")
                complete = False
                continue
            key = f"{self._key(job, run, target)}{key_suffix}"
            try:
                await self.outbox.send(target, text, key=key, kind="cron", attachments=attachments)
            except HermesError as error:
                try:
                    await self.outbox.delivered(key)  # another gateway may have stored it
                except HermesError:
                    results.append(f"{NOT_SENT} {target}: {error}")
                    complete = False
                    continue
            results.append(f"{QUEUED} {target}")
        return "; ".join(results), complete
