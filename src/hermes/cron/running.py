"""One run of a job: an agent of its own, what it is told, and what becomes of its answer.

The session of a run has a name that follows from job and instant. A run that another process left
unfinished goes on in that session: an answer that is there is delivered, a turn that was broken off
is gone on with, and what its tools did is not done again.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from hermes.agent.agent import Agent
from hermes.app.request import SessionRequest
from hermes.config.environment import child_environment
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, LeaseLost, SessionNotFound, UsageError
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Assistant, Message, User
from hermes.core.ports import Clock
from hermes.cron.book import JobBook
from hermes.cron.delivery import Deliverer
from hermes.cron.job import Job
from hermes.cron.limits import By, common
from hermes.cron.schedule import iso
from hermes.cron.script import ScriptResult, run_script
from hermes.cron.wording import HINT, context_of, is_silent, message_for
from hermes.memory.places import Scope
from hermes.security.injection import scan
from hermes.store.claims import Run
from hermes.store.port import SessionStore
from hermes.util.text import cut_middle

log = logging.getLogger(__name__)

MOST_CONTEXT = 10_000
"""Characters taken over from another job."""
PATIENCE = 30.0
"""Seconds a turn has to end after it was told to."""


class Workers(Protocol):
    """What makes agents: `hermes.app.app.App`."""

    @property
    def home(self) -> Home: ...

    @property
    def loaded(self) -> Loaded: ...

    @property
    def store(self) -> SessionStore: ...

    async def agent(self, request: SessionRequest) -> Agent: ...

    async def opened(self, agent: Agent, text: str) -> User: ...

    async def leave(self, agent: Agent) -> None: ...

    def redact(self, text: str) -> str: ...


class JobFailed(HermesError):
    """A run that came to no answer."""


class JobRunner:
    """`ticker.Runner`."""

    def __init__(
        self,
        workers: Workers,
        book: JobBook,
        deliverer: Deliverer,
        clock: Clock,
        script_timeout: Callable[[], float],
    ) -> None:
        self._workers, self._book, self._deliverer = workers, book, deliverer
        self._clock, self._script_timeout = clock, script_timeout
        self._idle = workers.loaded.settings.cron.timeout_seconds

    async def run(self, job: Job, run: Run) -> Run:
        run = replace(
            run,
            state="running",
            started_at=run.started_at or self._now(),
            session_id=run.session_id or session_of(run),
        )
        await self._workers.store.report_run(run)
        work = _Work(job, run)
        try:
            await self._answer(work)
            ended = replace(work.run, state="silent" if is_silent(work.answer) else "ok")
        except LeaseLost:
            raise
        except (HermesError, OSError) as error:
            hint = getattr(error, "hint", "")
            told = f"{error}{hint and f' ({hint})'}"
            log.warning("the job %s failed: %s", job.name, told)
            ended = replace(work.run, state="failed", error=told)
        return await self._deliver(work, ended)

    async def lost(self, job: Job, run: Run) -> Run:
        error = f"the process that ran it died, {run.attempt - 1} times"
        ended = replace(run, state="lost", error=error)
        return await self._deliver(_Work(job, run), ended)

    async def _deliver(self, work: "_Work", run: Run) -> Run:
        """To its file and to chats, if it is still ours."""
        redact = self._workers.redact
        answer, message = redact(work.answer), redact(work.message)
        run = replace(run, ended_at=self._now(), error=redact(run.error))
        try:
            file = self._deliverer.write(work.job, run, message, answer)
            run = replace(run, output=str(file))
        except OSError as error:
            run = replace(run, error=f"{run.error} (no file: {error})".strip())
        # It is not over before it is delivered; a process that lost it must not deliver.
        await self._workers.store.report_run(replace(run, state="running", ended_at=None))
        if run.state == "ok":
            return replace(run, delivered=await self._deliverer.answer(work.job, run, answer))
        if run.state == "silent":
            return replace(run, delivered="nothing to tell")
        return replace(run, delivered=await self._deliverer.failure(work.job, run))

    async def _answer(self, work: "_Work") -> None:
        """`work` with its answer. Raises `HermesError`."""
        job, store = work.job, self._workers.store
        check_prompt(job.prompt)
        session_id = await self._where(work.run.session_id)
        agent = await self._workers.agent(self._request(job, session_id))
        try:
            if (answer := _answer_in(agent.history)) is not None:
                work.answer = answer
                return
            if agent.unfinished:
                events = agent.resume()
            else:
                message, problem = await self._message(job)
                work.message = message
                work.run = replace(work.run, error=problem)
                events = agent.run(await self._workers.opened(agent, message))

            async def moved() -> None:
                if agent.session_id != work.run.session_id:  # after a compaction
                    work.run = replace(work.run, session_id=agent.session_id)
                    await store.report_run(work.run)

            end = await self._watched(agent, events, moved)
            work.answer = end.text
            if not (end.completed or end.partial):
                raise JobFailed(end.error or f"no answer: {end.exit_reason}", hint=end.hint)
        finally:
            await self._workers.leave(agent)

    async def _watched(
        self,
        agent: Agent,
        events: AsyncGenerator[Event, None],
        moved: Callable[[], Awaitable[None]],
    ) -> TurnFinished:
        """The end of the turn, which is stopped when nothing happens for too long."""
        watch = _Watch(agent, self._idle)
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    watch.seen()
                    await moved()
                    if isinstance(event, TurnFinished):
                        if watch.fired:
                            raise JobFailed(watch.reason)
                        return event
        except asyncio.CancelledError:
            if watch.gave_up:
                raise JobFailed(watch.reason) from None
            raise
        finally:
            watch.end()
        raise JobFailed("the turn ended without an answer")

    def _request(self, job: Job, session_id: str) -> SessionRequest:
        by = job.by or By()
        folder = Path(job.workdir or by.folder or self._workers.loaded.settings.gateway.cwd)
        folder = folder.expanduser()
        if not folder.is_dir():
            raise UsageError(f"the working folder {folder} is not there")
        toolsets = common(job.enabled_toolsets, by.toolsets)
        return SessionRequest(
            folder,
            session_id=session_id,
            source="cron",
            user_id=by.user,
            scope=Scope(user=by.user),
            skills=job.skills,
            toolsets=(*toolsets, "-cronjob", "-clarify") if toolsets else (),
            goes_on=False,
            system_message=HINT,
            skip_context_files=not job.workdir,
            model=job.model,
            provider=job.provider,
            base_url=job.base_url,
            budget_usd=job.budget_usd,
            backend=by.backend,
            origin=job.origin,
            user_day_usd=by.day_usd,
        )

    async def _where(self, session_id: str) -> str:
        """The session in which it goes on: a compaction may not have been reported."""
        store = self._workers.store
        try:
            while (await store.info(session_id)).end_reason == "compression":
                children = await store.descendants(session_id)
                after = [each.id for each in children if each.parent_id == session_id]
                if not after:
                    break
                session_id = after[-1]
        except SessionNotFound:
            return session_id
        return session_id

    async def _message(self, job: Job) -> tuple[str, str]:
        """What the agent is told, and what went wrong with it."""
        contexts = [await self._context(name) for name in job.context_from]
        script: ScriptResult | None = None
        if job.script:
            home, loaded = self._workers.home, self._workers.loaded
            given = child_environment(loaded.settings.terminal.env_passthrough, loaded.saved)
            given["HERMES_HOME"] = str(home.root)
            cwd = Path(job.workdir).expanduser() if job.workdir else home.scripts
            timeout = self._script_timeout()
            script = await run_script(home.scripts, job.script, timeout, given, cwd)
        problem = f"the script failed: {script.problem}" if script and script.problem else ""
        return message_for(job, [each for each in contexts if each], script), problem

    async def _context(self, name: str) -> str:
        """The newest answer of another job."""
        other = next((job for job in await self._book.all() if name in (job.id, job.name)), None)
        if other is None:
            return f"The job {name!r}, whose result belongs here, is gone."
        for run in await self._workers.store.runs(other.id):
            if run.state in ("ok", "silent") and (text := await self.answer_of(run)):
                zone = self._deliverer.zone
                return context_of(other, run, cut_middle(text, MOST_CONTEXT), zone)
        return f"The job {other.name!r}, whose result belongs here, has none yet."

    async def answer_of(self, run: Run) -> str:
        """What a run that is over said; "" when nobody knows any more."""
        try:
            answer = _answer_in(await self._workers.store.messages(run.session_id))
        except HermesError:
            answer = None  # the session was deleted
        if answer is None and run.output:
            try:
                answer = Path(run.output).read_text(encoding="utf-8")
            except OSError:
                return ""
        return answer or ""

    def _now(self) -> float:
        return self._clock.now().timestamp()


class _Work:
    """A run under way."""

    def __init__(self, job: Job, run: Run) -> None:
        self.job, self.run = job, run
        self.message = self.answer = ""


class _Watch:
    """Stops a turn in which nothing happens: it is told to end and, when it does not, cancelled."""

    def __init__(self, agent: Agent, idle: float) -> None:
        self._agent, self._idle = agent, idle
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self.fired = self.gave_up = False
        self.reason = f"nothing happened for {idle:g} seconds (cron.timeout_seconds)"
        self.seen()

    def seen(self) -> None:
        if self._idle and not self.fired:
            self.end()
            self._timer = self._loop.call_later(self._idle, self._stop)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self.fired = True
        self._agent.interrupt(self.reason)
        self._timer = self._loop.call_later(PATIENCE, self._give_up)

    def _give_up(self) -> None:
        self.gave_up = True
        if self._task is not None:
            self._task.cancel()


def check_prompt(prompt: str) -> None:
    """Raises `UsageError` for one that tries to take over the agent."""
    if found := scan(prompt):
        raise UsageError(
            f"the prompt looks like an attack ({', '.join(found)})",
            hint="say it in other words",
        )


def session_of(run: Run) -> str:
    """The same for everybody who runs this instant."""
    moment = datetime.fromtimestamp(run.instant, UTC)
    digest = hashlib.sha256(f"{run.job_id}:{iso(run.instant)}".encode()).hexdigest()[:8]
    return f"{moment:%Y%m%d_%H%M%S}_{digest}"


def _answer_in(history: tuple[Message, ...]) -> str | None:
    """The answer a conversation ended with; None when it did not."""
    last = history[-1] if history else None
    return last.text if isinstance(last, Assistant) and not last.calls else None
