"""A data warehouse: SQL models, a broken load, and a move to incremental models."""

from tests.compaction.code_material import SQL, compile_run, grep_hits, source
from tests.compaction.talk import Talk, failed, patch, read, run, script, search, write
from tests.compaction.text_material import log, table

NOUNS = "order customer visit click shipment payment campaign return"
MODELS = ("fct_orders", "fct_visits", "fct_payments", "fct_returns", "dim_customers", "fct_clicks")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "dbt project, PostgreSQL 16. You may run against the target `dev` only, never against "
        "prod, and no SELECT * in models. Money is numeric(12,2), never float.",
        "never against prod",
        "no SELECT * in models",
        "numeric(12,2)",
    )
    talk.says("Target dev only, explicit columns, numeric(12,2).")
    talk.task("Last night's load failed, why?")
    talk.do(run("tail -n 300 logs/dbt.log", log(random, NOUNS, 300)))
    talk.do(
        run("dbt build --target dev -s staging", compile_run(random, NOUNS, 120, "ERROR 23505"), 1)
    )
    talk.do(read("models/staging/stg_payments.sql", source(random, SQL, NOUNS, 160)))
    talk.do(script("import csv\nprint(rows[:200])", table(random, "id amount payment_name", 180)))
    talk.says("A payment arrived twice, and the unique test of stg_payments stopped the load.")
    talk.task("Deduplicate it there, keeping the newest row.")
    talk.do(patch("models/staging/stg_payments.sql", "FROM raw.payments", "FROM newest_payments"))
    for _ in range(4):
        talk.do(run("dbt build --target dev -s staging", compile_run(random, NOUNS, 140)))
        talk.do(script("print(counts)", table(random, "id loaded rejected", 90)))
    talk.says("Deduplicated; the load runs through on dev.")
    _incremental(talk)


def _incremental(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "The nightly run takes 94 minutes. Make the six biggest models in models/marts incremental "
        "(merge on the key, three days of look-back), compare row counts and sums with the full "
        "run for every one of them, and keep a record in docs/incremental.md.",
        "three days of look-back",
    )
    talk.needs("models/marts", "docs/incremental.md", "dbt_project.yml")
    talk.do(read("dbt_project.yml", "\n".join(f"    model_{n}: table" for n in range(140))))
    talk.do(search("materialized", grep_hits(random, "models/marts", ".sql", "config", NOUNS, 41)))
    talk.do(
        script("print(sizes)", table(random, "id minutes model_name", 60)),
        say="The six are fct_orders, fct_visits, fct_payments, fct_returns, dim_customers and "
        "fct_clicks; together 71 of the 94 minutes.",
        values=("71 of the 94 minutes",),
    )
    for name in MODELS[:2]:
        _model(talk, name)
    talk.user("fct_visits has no stable key, use visit_id plus day.", "visit_id plus day")
    go_on(talk, 0)


def _model(talk: Talk, name: str) -> None:
    random = talk.random
    path = f"models/marts/{name}.sql"
    talk.do(read(path, source(random, SQL, NOUNS, 170)))
    talk.do(patch(path, "materialized='table'", "materialized='incremental'", 2))
    talk.do(
        run(f"dbt run --target dev -s {name}", compile_run(random, NOUNS, 80, "ERROR 42703"), 1)
    )
    talk.do(write(path, source(random, SQL, NOUNS, 180)))
    talk.do(run(f"dbt run --target dev -s {name}", compile_run(random, NOUNS, 80)))
    talk.do(script(f"compare({name!r})", table(random, "id rows total full_rows full_total", 120)))
    talk.do(patch("docs/incremental.md", f"| {name} | |", f"| {name} | equal |"))


def go_on(talk: Talk, part: int) -> None:
    name = MODELS[2 + part]
    talk.at(f"models/marts/{name}.sql")
    _model(talk, name)
    error = "cannot merge: the key is not unique"
    talk.do(failed("terminal", {"command": f"dbt run --target dev -s {name}"}, error))
    if part == 1:
        talk.user("continue")
    if part == 2:
        talk.user("The record should be in English, not in German.", "in English, not in German")
