"""What a job says: to its agent, to those who get its answer, and in its file."""

from datetime import tzinfo

from hermes.cron.job import Job
from hermes.cron.schedule import iso, local
from hermes.cron.script import ScriptResult
from hermes.store.claims import Run

SILENT = "[SILENT]"
"""What an answer begins with that nobody needs to see."""
HINT = f"When there is nothing worth telling, answer with {SILENT} alone: then nobody is disturbed."


def message_for(job: Job, contexts: list[str], script: ScriptResult | None) -> str:
    """What the agent is told, behind its skills: results of other jobs, the script, the prompt."""
    return "\n\n".join(part for part in (*contexts, _script(job, script), job.prompt) if part)


def context_of(other: Job, run: Run, text: str, zone: tzinfo) -> str:
    return f"Result of the job {other.name!r} ({local(run.instant, zone)}):\n\n{text}"


def _script(job: Job, result: ScriptResult | None) -> str:
    if result is None:
        return ""
    told = f"Output of the script {job.script}:\n\n{result.output}"
    if result.problem:
        told = (
            f"The script {job.script} FAILED: {result.problem}\n\n{told if result.output else ''}"
        )
    return told.strip()


def is_silent(answer: str) -> bool:
    return answer.lstrip().upper().startswith(SILENT)


def wrapped(job: Job, answer: str) -> str:
    """An answer for a chat whose people may not know where it comes from."""
    return (
        f"⏰ {job.name} (job {job.id})\n\n{answer.strip()}\n\n"
        "— Sent by a scheduled job. The agent of this chat cannot see this message."
    )


def notice(job: Job, run: Run, zone: tzinfo) -> str:
    """What is told when a run failed."""
    when = local(run.instant, zone)
    what = "was lost" if run.state == "lost" else "failed"
    return (
        f"⚠️ The scheduled job {job.name!r} ({job.id}) of {when} {what}: {run.error}\n"
        f"`hermes cron runs {job.id}` shows more."
    )


def page(job: Job, run: Run, message: str, answer: str, zone: tzinfo) -> str:
    """The file of a run."""
    facts = {
        "job": job.id,
        "due": f"{local(run.instant, zone)} ({iso(run.instant)})",
        "schedule": job.schedule.display if job.schedule else "",
        "state": run.state,
        "session": run.session_id,
        "error": run.error,
    }
    lines = [f"- {name}: {value}" for name, value in facts.items() if value]
    said = f"## Prompt\n\n{message.strip()}\n\n" if message else ""
    return f"# {job.name}\n\n" + "\n".join(lines) + f"\n\n{said}## Response\n\n{answer.strip()}\n"
