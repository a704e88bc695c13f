"""Files of runs: where they are, and how many of them stay."""

from pathlib import Path
from zoneinfo import ZoneInfo

from hermes.cron.delivery import KEPT_FILES, Deliverer
from hermes.cron.job import Job
from hermes.store.claims import Run
from tests.unit.cron.conftest import T0

UTC = ZoneInfo("UTC")


def test_the_newest_files_of_a_job_stay(tmp_path: Path) -> None:
    deliverer, job = Deliverer(tmp_path, UTC), Job(id="j", name="n")
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "notes.md").write_text("of the user")
    for number in range(KEPT_FILES + 3):
        deliverer.file(Run("j", T0 + number, "ok")).write_text("")
    written = deliverer.write(job, Run("j", T0 + 9999, "ok"), "asked", "answered")
    left = sorted(tmp_path.glob("j/*Z.md"))
    assert len(left) == KEPT_FILES
    assert left[-1] == written
    assert left[0] == deliverer.file(Run("j", T0 + 4, "ok"))
    assert (tmp_path / "j" / "notes.md").exists()


def test_an_id_that_was_written_by_hand_leads_nowhere_else(tmp_path: Path) -> None:
    deliverer = Deliverer(tmp_path / "output", UTC)
    for name in ("../../etc", "/etc", "..", "a/b"):
        written = deliverer.write(Job(id=name), Run(name, T0, "ok"), "", "")
        assert written.parent.parent == tmp_path / "output"
