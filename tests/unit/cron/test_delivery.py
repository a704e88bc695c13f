"""Output files: their paths and how many are kept."""

from pathlib import Path
from zoneinfo import ZoneInfo

from hermes.cron.job import Job
from hermes.cron.runner import MAX_OUTPUT_FILES, Deliverer
from hermes.store.records import Run
from tests.unit.cron.conftest import T0

UTC = ZoneInfo("UTC")


def test_newest_output_files_are_kept(tmp_path: Path) -> None:
    deliverer, job = Deliverer(tmp_path, UTC), Job(id="j", name="n")
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "notes.md").write_text("of the user")
    for number in range(MAX_OUTPUT_FILES + 3):
        deliverer.output_path(Run("j", T0 + number, "ok")).write_text("")
    written = deliverer.write_output(job, Run("j", T0 + 9999, "ok"), "asked", "answered")
    left = sorted(tmp_path.glob("j/*Z.md"))
    assert len(left) == MAX_OUTPUT_FILES
    assert left[-1] == written
    assert left[0] == deliverer.output_path(Run("j", T0 + 4, "ok"))
    assert (tmp_path / "j" / "notes.md").exists()


def test_file_names_differ_for_different_instants(tmp_path: Path) -> None:
    deliverer = Deliverer(tmp_path, UTC)
    assert deliverer.output_path(Run("j", T0, "ok")).name == "2027-01-15T08-00-00Z.md"
    assert deliverer.output_path(Run("j", T0 + 0.25, "ok")).name == "2027-01-15T08-00-00.250Z.md"


def test_unusual_job_id_stays_inside_the_output_folder(tmp_path: Path) -> None:
    deliverer = Deliverer(tmp_path / "output", UTC)
    for name in ("../../etc", "/etc", "..", "a/b"):
        written = deliverer.write_output(Job(id=name), Run(name, T0, "ok"), "", "")
        assert written.parent.parent == tmp_path / "output"
