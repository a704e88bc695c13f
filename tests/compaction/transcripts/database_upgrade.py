"""Operations: PostgreSQL 13 to 16 with a replica, rehearsed step by step, long command outputs."""

from tests.compaction.code_material import SQL, compile_run, source
from tests.compaction.talk import Talk, failed, patch, read, run, script, write
from tests.compaction.text_material import listing, log, processes, table

NOUNS = "relation index sequence extension slot tablespace checkpoint vacuum"
PLAN = "/srv/upgrade/plan.md"
STEPS = ("extensions", "replica", "switch", "rollback", "cleanup", "monitoring")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "We upgrade the cluster from PostgreSQL 13 to 16. db-prod is read-only for you: SELECT is "
        "fine, nothing else. Rehearse on db-stage. The window is Sunday 02:00 to 04:00 CET.",
        "db-prod is read-only for you",
        "Sunday 02:00 to 04:00 CET",
    )
    talk.says("SELECT only on db-prod, rehearsals on db-stage, window noted.")
    talk.task("What is installed and how big is everything?")
    talk.do(run("psql -h db-prod -c '\\dx'", table(random, "id version extension_name", 40)))
    talk.do(run("psql -h db-prod -f sizes.sql", table(random, "id mb rows relation_name", 260)))
    talk.do(
        run("ssh db-prod ls -l /var/lib/postgresql/13", listing(random, NOUNS, ".conf .bin", 150))
    )
    talk.says("412 GB, 1,148 relations, 9 extensions; PostGIS 3.1 is the one that needs care.")
    talk.task("Is the backup usable? Restore it on db-stage.")
    for number in range(5):
        talk.do(run(f"ssh db-stage pg_restore -j 4 part{number}.dump", log(random, NOUNS, 180)))
    talk.do(failed("terminal", {"command": "pg_restore part5.dump"}, "stopped after 180 s"))
    talk.do(run("ssh db-stage nohup pg_restore part5.dump", log(random, NOUNS, 150)))
    talk.says("It restores in 71 minutes, all row counts agree.")
    talk.user("Don't keep dumps on /tmp, it is wiped at night. Use /srv/dumps.", "Use /srv/dumps")
    talk.says("Moved to /srv/dumps.")
    _plan(talk)


def _plan(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Write the upgrade plan in /srv/upgrade/plan.md: exact commands and a way back for each "
        "step, rehearse every step on db-stage with pg_upgrade --link, note how long each took and "
        "put the scripts into /srv/upgrade/bin. No step may need more than 20 minutes.",
        "a way back for each step",
        "No step may need more than 20 minutes",
    )
    talk.needs(PLAN, "/srv/upgrade/bin")
    talk.do(
        read(
            "/etc/postgresql/13/main/postgresql.conf",
            "\n".join(f"opt{n} = {n}" for n in range(320)),
        )
    )
    for step in STEPS[:2]:
        _step(talk, step)
    talk.do(
        run("ssh db-stage pg_upgrade --check", compile_run(random, NOUNS, 80, "fatal: postgis"), 1),
        say="pg_upgrade stops at PostGIS: error 58P01, the library of 3.1 is missing. The new "
        "cluster listens on port 5433 during the rehearsal.",
        values=("58P01", "port 5433"),
    )
    talk.do(read("/srv/upgrade/bin/extensions.sh", source(random, SQL, NOUNS, 120)))
    talk.user("Upgrade PostGIS to 3.4 before, not after.", "Upgrade PostGIS to 3.4 before")
    go_on(talk, 0)


def _step(talk: Talk, step: str) -> None:
    random = talk.random
    path = f"/srv/upgrade/bin/{step}.sh"
    talk.do(write(path, source(random, SQL, NOUNS, 80)))
    for attempt in range(3):
        talk.do(run(f"ssh db-stage bash {path}", log(random, NOUNS, 170), 1 if attempt < 2 else 0))
        talk.do(patch(path, f"set -{attempt}", f"set -eu # {attempt}"))
    talk.do(run("ssh db-stage ps aux", processes(random, NOUNS, 90)))
    talk.do(script("minutes()", table(random, "id minutes step_name", 30)))
    talk.do(patch(PLAN, f"## {step}\n", f"## {step}\n\n1. bash {path}\n"))


def go_on(talk: Talk, part: int) -> None:
    step = STEPS[2 + part]
    talk.at(f"/srv/upgrade/bin/{step}.sh")
    _step(talk, step)
    if part == 1:
        talk.user("yes, continue")
    if part == 2:
        talk.user("Mention the on-call number 4417 in every step.", "on-call number 4417")
