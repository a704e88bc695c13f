"""Where the answer of a job goes: always to a file, and to chats through the outbox."""

import re
from datetime import tzinfo
from pathlib import Path

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Outbox
from hermes.cron.job import LOCAL, Job, targets
from hermes.cron.jobs_file import stamp
from hermes.cron.schedule import iso
from hermes.cron.wording import notice, page, wrapped
from hermes.store.claims import Run
from hermes.util import atomic

KEPT_FILES = 500
"""Of each job, the newest. A job of every minute writes as many in a working day."""
_OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z\.md")


class Deliverer(msgspec.Struct, frozen=True):
    """What is sent again after a crash has the same key, so that a chat sees it once."""

    folder: Path
    """`<home>/cron/output`."""
    zone: tzinfo
    outbox: Outbox | None = None
    """None: there are no chats."""
    wrap: bool = True
    notify: bool = True

    def file(self, run: Run) -> Path:
        # Ids that were written by hand may hold anything.
        name = re.sub(r"[^\w-]", "_", run.job_id)
        return self.folder / name / f"{stamp(run.instant)}.md"

    def write(self, job: Job, run: Run, message: str, answer: str) -> Path:
        """Old files of the job go. Raises `OSError`."""
        file = self.file(run)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write_text(file, page(job, run, message, answer, self.zone), mode=0o600)
        written = sorted(each for each in file.parent.iterdir() if _OURS.fullmatch(each.name))
        for old in written[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
        return file

    async def answer(self, job: Job, run: Run, answer: str) -> str:
        """What became of it, in words."""
        return await self._send(job, run, wrapped(job, answer) if self.wrap else answer, "")

    async def failure(self, job: Job, run: Run) -> str:
        if not self.notify:
            return ""
        return await self._send(job, run, notice(job, run, self.zone), ":failed")

    async def _send(self, job: Job, run: Run, text: str, ending: str) -> str:
        told: list[str] = []
        for target in targets(job):
            if target == LOCAL:
                continue
            if self.outbox is None:
                told.append(f"not sent to {target}: no chat is connected")
                continue
            key = f"cron:{job.id}:{iso(run.instant)}:{target}{ending}"
            try:
                await self.outbox.send(target, text, key=key, kind="cron")
            except HermesError as error:
                told.append(f"not sent to {target}: {error}")
            else:
                told.append(f"given to {target}")
        return "; ".join(told)
