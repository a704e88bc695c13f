"""Scheduled jobs by their documented functions."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from hermes.core.errors import UsageError


def test_durations_and_schedules() -> None:
    jobs = import_module("cron.jobs")
    assert [jobs.parse_duration(each) for each in ("30m", "2h", "1d")] == [30, 120, 1440]
    schedule = jobs.parse_schedule("every 2h")
    assert (schedule["kind"], schedule["minutes"]) == ("interval", 120)
    assert jobs.compute_next_run(schedule).endswith("Z")
    once = jobs.parse_schedule("30m")
    assert jobs.compute_next_run(once) == once["run_at"]
    assert jobs.compute_next_run(once, last_run_at=once["run_at"]) is None
    for wrong in (jobs.parse_duration, jobs.parse_schedule):
        with pytest.raises(ValueError, match="is no"):
            wrong("whenever")


def test_the_life_of_a_job(hermes_home: Path) -> None:
    jobs = import_module("cron.jobs")
    made = jobs.create_job("look", "every 2h", name="mail", skills=["a"], deliver="local")
    assert jobs.get_job(made["id"])["name"] == "mail"
    assert jobs.update_job(made["id"], {"prompt": "look again"})["prompt"] == "look again"
    assert jobs.pause_job(made["id"], reason="holiday")["state"] == "paused"
    assert jobs.list_jobs() == []
    assert len(jobs.list_jobs(include_disabled=True)) == 1
    assert jobs.resume_job(made["id"])["state"] == "scheduled"
    assert jobs.trigger_job(made["id"])["asked_at"]
    loaded = jobs.load_jobs()
    loaded[0]["name"] = "post"
    jobs.save_jobs(loaded)
    written = json.loads((hermes_home / "cron" / "jobs.json").read_text())
    assert written["jobs"][0]["name"] == "post"
    assert jobs.remove_job(made["id"])
    assert not jobs.remove_job(made["id"])
    for change in (jobs.pause_job, jobs.resume_job, jobs.trigger_job, jobs.get_job):
        assert change("gone") is None
    with pytest.raises(UsageError):
        jobs.create_job("look", "whenever")


def test_a_look_when_nothing_is_due(hermes_home: Path) -> None:
    assert import_module("cron.scheduler").tick(verbose=False) == 0


def test_the_tool_as_a_function() -> None:
    cronjob = import_module("tools.cronjob_tools").cronjob
    made = json.loads(cronjob("create", schedule="every 2h", prompt="look", name="mail"))
    assert made["job"]["name"] == "mail"
    assert len(json.loads(cronjob("list"))["jobs"]) == 1
    assert "there is no job" in json.loads(cronjob("pause", job_id="gone"))["error"]
