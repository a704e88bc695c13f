"""`hermes cron` as a user sees it."""

import asyncio
import json
import re
import shutil
import time
from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.cron import HeartbeatFile, new_owner, retire_owner
from hermes.store.records import Run
from hermes.store.session_store import open_store
from tests.cases import cases
from tests.unit.cli.terminal import Hermes, Outcome

CASES = cases(__file__)


class Scene:
    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = Home(home)

    def run(self, *words: str) -> Outcome:
        return Hermes("cron", self.home.root)(*words)

    def document(self, *words: str):
        outcome = self.run(*words, "--json").expect()
        return json.loads(outcome.out)

    def sets_up_telegram(self) -> None:
        (self.home.root / ".env").write_text("TELEGRAM_BOT_TOKEN=123:abc-def-ghi\n")

    def has_skills(self, *names: str) -> None:
        for name in names:
            folder = self.home.skills / name
            folder.mkdir(parents=True)
            head = f"---\nname: {name}\ndescription: what it does\n---\n"
            (folder / "SKILL.md").write_text(f"{head}Do it.\n")

    def note(self, *runs: Run) -> None:
        async def work() -> None:
            store = open_store("", self.home.state_db)
            for run in runs:
                await store.runs.record(run)
            store.close()

        asyncio.run(work())


@pytest.fixture
def scene(hermes_home: Path) -> Scene:
    return Scene(hermes_home)


def test_looking_at_an_empty_home_creates_nothing(scene: Scene) -> None:
    assert "no jobs yet" in scene.run("list").out
    assert "no runs yet" in scene.run("runs").out
    assert "no process runs the jobs" in scene.run("status").out
    assert scene.document("list") == []
    assert list(scene.home.root.iterdir()) == []


def test_a_job_is_made_shown_changed_and_removed(scene: Scene) -> None:
    scene.has_skills("a", "b", "c")
    made = scene.run("create", "every 2h", "look at the mail", "--name", "mail", "--skill", "a,b")
    assert made.out.startswith("created mail (")
    assert "every 2h, in " in made.out
    head, line = scene.run("list").out.splitlines()
    assert head.split()[:4] == ["ID", "NAME", "SCHEDULE", "STATE"]
    assert "mail" in line and "scheduled" in line and "local" in line
    edited = scene.run("edit", "mail", "--add-skill", "c", "--remove-skill", "a", "--model", "m")
    assert "updated mail" in edited.out
    (job,) = scene.document("list")
    assert (job["skills"], job["model"]) == (["b", "c"], "m")
    assert scene.document("edit", "mail", "--clear-skills", "--model", "")["skills"] == []
    assert "paused mail" in scene.run("pause", "mail").out
    assert re.match(r"resumed mail \(\w+\); next in \dh", scene.run("resume", "mail").out)
    assert "on the next tick" in scene.run("run", "mail", "--queue").out
    assert "removed mail" in scene.run("remove", "mail").out
    assert scene.document("list") == []


@pytest.mark.parametrize(("option", "name", "message"), CASES["name that nothing has is refused"])
def test_a_name_that_nothing_has_is_refused(scene, option, name, message):
    scene.has_skills("postbox-look")
    scene.run("create", "every 2h", "look", option, name).expect(2, err=message)
    scene.document("create", "every 2h", "look", "--name", "n", "--skill", "postbox-look")
    shutil.rmtree(scene.home.skills)
    kept = scene.document("edit", "n", "--skill", "postbox-look", "--model", "m")
    assert (kept["skills"], kept["model"]) == (["postbox-look"], "m")  # it was there once
    assert scene.run("edit", "n", option, name).code == 2


def test_names_that_plugins_or_mcp_servers_may_provide_are_accepted(scene: Scene) -> None:
    assert scene.run("create", "every 2h", "look", "--toolsets", "web,-mcp-x,mcp_y_z").code == 0
    scene.home.config_file.write_text("plugins: {enabled: [clock]}\n")
    words = ("--skill", "clock:tell", "--toolsets", "clock")
    assert scene.run("create", "every 2h", "look", *words).code == 0


def test_every_field_has_an_option(scene: Scene, tmp_path: Path) -> None:
    scene.home.scripts.mkdir()
    (scene.home.scripts / "s.py").write_text("")
    scene.sets_up_telegram()
    first = scene.document("add", "30m", "first", "--name", "first")
    job = scene.document(
        "add", "--schedule", "0 9 * * 1-5", "--prompt", "go", "--name", "n",
        "--deliver", "telegram:1", "--deliver", "local", "--repeat", "3", "--workdir",
        str(tmp_path), "--script", "s.py", "--model", "m", "--provider", "p", "--base-url", "u",
        "--context-from", "first", "--toolsets", "web,file", "--budget-usd", "0.5",
    )  # fmt: skip
    assert job["schedule"]["expr"] == "0 9 * * 1-5"
    assert job["deliver"] == "telegram:1,local"
    assert job["repeat"]["times"] == 3
    assert job["enabled_toolsets"] == ["web", "file"]
    assert (job["budget_usd"], job["context_from"]) == (0.5, [first["id"]])
    mixed = scene.document("add", "--schedule", "30m", "the prompt alone")
    assert mixed["prompt"] == "the prompt alone"
    for words in (
        ("every 2h", "--name", "n2", "look"),
        ("--name", "n2", "every 2h", "look"),
        ("every 2h", "look", "--name", "n2"),
        ("every 2h", "--name", "n2", "--prompt", "look"),
    ):
        made = scene.document("create", *words)
        assert (made["name"], made["prompt"]) == ("n2", "look")
        assert made["schedule"]["kind"] == "interval"


@pytest.mark.parametrize(("words", "message"), CASES["invalid arguments are refused with a hint"])
def test_invalid_arguments_are_refused_with_a_hint(scene, words, message):
    scene.run(*words).expect(2, err=message)


def test_the_history_and_what_failed_are_shown(scene: Scene) -> None:
    job = scene.document("create", "every 2h", "x", "--name", "mail")
    at = float(int(time.time()))
    times = {"started_at": at - 60, "ended_at": at}
    scene.note(
        Run(job["id"], at - 60, "failed", "o", error="no \x1b[31mkey", **times),
        Run(job["id"], at - 120, "ok", "o", delivered="queued for t", **times),
        Run(job["id"], at - 180, "missed", error="no process was running the jobs"),
        Run(job["id"], at - 30, "running", "o", started_at=at - 30),
    )
    out = scene.run("runs", "mail").out
    assert "… " in out and "✗" in out and "✓" in out and "·" in out
    assert "queued for t" in out and "no process was running" in out and "\x1b" not in out
    assert [run["state"] for run in scene.document("runs", "mail", "--limit", "2")] == [
        "running", "failed",
    ]  # fmt: skip
    assert scene.document("list")[0]["state"] == "running"
    assert "the run in progress continues" in scene.run("pause", "mail").out
    status = scene.document("status")
    assert [run["error"] for run in status["failures"]] == ["no \x1b[31mkey"]
    assert "✗" in scene.run("status").out


def test_the_status_knows_who_looks(scene: Scene) -> None:
    scene.run("create", "every 2h", "x", "--name", "mail")
    owner = new_owner()
    HeartbeatFile(scene.home.cron, "gateway").write(owner, time.time(), 60)
    out = scene.run("status").out
    assert "the gateway runs the jobs" in out and "next: mail" in out
    retire_owner(owner)
    assert scene.document("status")["ticking"] is False


def test_without_anything_due_a_tick_does_nothing(scene: Scene) -> None:
    scene.run("create", "every 2h", "x")
    assert scene.run("tick").out == "nothing is due\n"
    assert scene.document("tick") == []


def test_damaged_file_is_reported_in_one_line(scene: Scene) -> None:
    scene.home.cron.mkdir()
    (scene.home.cron / "jobs.json").write_text("{")
    scene.run("list").expect(3, err=["no job can run", ".bak"])


def test_a_platform_must_be_set_up_and_know_where_to(scene: Scene) -> None:
    scene.sets_up_telegram()
    assert scene.run("create", "30m", "x", "--deliver", "telegram:-100:7").code == 0
    scene.run("create", "30m", "x", "--deliver", "telegram").expect(2, err="no home channel")
    assert len(scene.document("list")) == 1


def test_creating_a_job_warns_when_no_process_runs_jobs(scene: Scene) -> None:
    made = scene.run("create", "every 2h", "x", "--name", "mail")
    assert "no process runs the jobs" in made.err
    assert "to run it now: hermes cron tick" in scene.run("run", "mail", "--queue").out
    owner = new_owner()
    HeartbeatFile(scene.home.cron, "gateway").write(owner, time.time(), 60)
    assert scene.run("create", "every 2h", "y").err == ""
    assert "is starting now, in the gateway" in scene.run("run", "mail").out
    retire_owner(owner)


def test_the_history_of_a_job_that_is_gone_can_be_looked_at(scene: Scene) -> None:
    job = scene.document("create", "every 2h", "x", "--name", "mail")
    at = float(int(time.time()))
    scene.note(Run(job["id"], at, "ok", "o", started_at=at, ended_at=at))
    scene.run("remove", "mail")
    assert "ok" in scene.run("runs", job["id"]).out
    assert scene.run("runs", "mail").code == 2


def test_damaged_record_is_reported_and_the_others_are_shown(scene: Scene) -> None:
    for name in ("one", "two"):
        scene.run("create", "every 2h", name, "--name", name)
    file = scene.home.cron / "jobs.json"
    file.write_text(file.read_text().replace('"name": "two"', '"name": two'))
    for action in ("list", "status"):
        scene.run(action).expect(err=["1 record of ", "jobs.json"])
    assert "one" in scene.run("list").out
    assert len(scene.document("list")) == 1


def test_unknown_job_is_named(scene: Scene) -> None:
    scene.run("create", "every 1d", "look", "--name", "daily")
    file = scene.home.cron / "jobs.json"
    jobs = json.loads(file.read_text())["jobs"]
    odd = {**jobs[0], "id": "odd", "name": "moony", "schedule": "every moon"}
    file.write_text(json.dumps({"jobs": [*jobs, odd, {"prompt": "hello"}]}))
    message = scene.run("list")
    assert "1 record of" in message.err and "is invalid; fix or remove it" in message.err
    assert "record 3 (hello) has no id" in message.err
    (row,) = [line for line in message.out.splitlines() if "moony" in line]
    assert "invalid" in row and "broken" in row and " in " not in row
    status = scene.run("status")
    assert "2 jobs: 1 broken, 1 scheduled" in status.out
    file.write_text(json.dumps({"jobs": [*jobs, jobs[0], 5]}))
    message = scene.run("status")
    assert "2 records of" in message.err and "are invalid; fix or remove them" in message.err
    assert f"record 2 (daily) has the same id as another job ({jobs[0]['id']})" in message.err
    assert "record 3 is not an object" in message.err


def test_the_status_leaves_out_what_jobs_did_that_are_gone(scene: Scene) -> None:
    job = scene.document("create", "every 2h", "x", "--name", "mail")
    at = float(int(time.time()))
    scene.note(Run(job["id"], at, "failed", "o", started_at=at, ended_at=at, error="no key"))
    assert "no key" in scene.run("status").out
    scene.run("remove", "mail")
    assert "no key" not in scene.run("status").out
    assert scene.document("status")["failures"] == []


def test_a_run_whose_process_is_gone_does_not_run(scene: Scene) -> None:
    owner, at = new_owner(), float(int(time.time()))
    for name in ("one", "two"):
        job = scene.document("create", "every 2h", "x", "--name", name)
        scene.note(Run(job["id"], at, "running", owner, started_at=at))
    assert "2 jobs: 2 running" in scene.run("status").out
    retire_owner(owner)
    out = scene.run("status").out
    assert "2 jobs: 2 cut off (continued when a process runs the jobs again)" in out
    assert scene.document("status")["jobs"] == {"cut off": 2}


def test_create_without_arguments_asks_on_a_terminal(scene: Scene) -> None:
    typed = "someday\nweekdays at 8:30\nWhat is new?\nmorning\n\n"
    outcome = Hermes("cron", scene.home.root)("create", typed=typed)
    outcome.expect(0, out=["first run: ", "created morning"], err="'someday' is not a schedule")
    (job,) = scene.document("list")
    assert (job["schedule_display"], job["prompt"]) == ("weekdays at 8:30", "What is new?")
    assert (job["name"], job["deliver"]) == ("morning", "local")


def test_create_without_an_answer_creates_nothing(scene: Scene) -> None:
    Hermes("cron", scene.home.root)("create", typed="\n").expect(1, out="nothing was created")
    assert scene.document("list") == []


def test_create_without_arguments_and_terminal_names_the_next_step(scene: Scene) -> None:
    outcome = scene.run("create")
    outcome.expect(2, err=["needs a schedule and a prompt", 'hermes cron create "weekdays'])
