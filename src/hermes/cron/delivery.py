"""Delivery of results: an output file for every run, and messages to chats through the outbox."""

import re
from datetime import tzinfo
from pathlib import Path

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Attachments, Outbox
from hermes.cron.job import LOCAL, Job
from hermes.cron.schedule import format_local, format_timestamp
from hermes.store import Run
from hermes.util import files

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
        written = sorted(
            each for each in path.parent.iterdir() if _OUTPUT_NAME.fullmatch(each.name)
        )
        for old in written[:-MAX_OUTPUT_FILES]:
            old.unlink(missing_ok=True)
        return path

    async def send_answer(
        self, job: Job, run: Run, answer: str, attachments: Attachments | None = None
    ) -> str:
        """Send the answer to the job's chats, with the files it names as far as `attachments`
        allows; return a summary for the history."""
        if self.wrap:
            answer = (
                f"⏰ {job.name} (job {job.id})\n\n{answer.strip()}\n\n"
                "— Sent by a scheduled job. The agent of this chat cannot see this message."
            )
        return await self._send(job, run, answer, attachments=attachments)

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
        return await self._send(job, run, text, ":failed")

    async def _send(
        self,
        job: Job,
        run: Run,
        text: str,
        key_suffix: str = "",
        attachments: Attachments | None = None,
    ) -> str:
        results: list[str] = []
        for target in job.targets:
            if target == LOCAL:
                continue
            if self.outbox is None:
                results.append(f"not sent to {target}: no chat platform is connected")
                continue
            key = f"cron:{job.id}:{format_timestamp(run.instant)}:{target}{key_suffix}"
            try:
                await self.outbox.send(target, text, key=key, kind="cron", attachments=attachments)
            except HermesError as error:
                results.append(f"not sent to {target}: {error}")
            else:
                results.append(f"queued for {target}")
        return "; ".join(results)
