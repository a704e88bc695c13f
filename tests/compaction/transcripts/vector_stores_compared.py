"""Technical research: candidates looked at one after the other, measured, and put into a report."""

from tests.compaction.code_material import compile_run
from tests.compaction.talk import Talk, failed, look_up, page, patch, read, run, script, write
from tests.compaction.text_material import article, log, results, table

TOPICS = "filtered search|recall at ten|memory per vector|index builds|replication|backups"
SITES = "qdrant.example milvus.example pgvector.example weaviate.example arxiv.example"
STORES = ("pgvector", "qdrant", "milvus", "weaviate", "lancedb", "vespa", "redis")
NOUNS = "vector segment index shard collection replica"


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "I need to choose a vector database for 40 million embeddings of 768 dimensions. Only "
        "sources from 2024 or later, please, and self-hosted candidates only.",
        "Only sources from 2024 or later",
        "self-hosted candidates only",
        "40 million embeddings",
    )
    talk.says("40 million by 768, self-hosted, recent sources. Shall I begin with a long list?")
    talk.task("Yes, a long list with licence and language of each, here in the chat.")
    for name in STORES:
        talk.do(
            look_up(f"{name} licence release notes", results(random, TOPICS, SITES)),
            page(f"https://{name}.example/docs/intro", article(random, TOPICS, 45)),
        )
    talk.says("Seven candidates: " + ", ".join(STORES) + ". Licences and languages are above.")
    talk.user("Drop vespa and redis, our team cannot run a JVM and redis is too dear.")
    talk.says("Five are left.")
    talk.task("Is there independent evidence on filtered search? Two paragraphs are enough.")
    for number in range(5):
        talk.do(look_up(f"filtered ANN benchmark {number}", results(random, TOPICS, SITES)))
        talk.do(page(f"https://arxiv.example/abs/24{number}", article(random, TOPICS, 80)))
    talk.says("Two papers compare them; filters that keep under 2 % of rows hurt HNSW most.")
    _measuring(talk)


def _measuring(talk: Talk) -> None:
    talk.task(
        "Then measure the five yourself on the data in /srv/bench/embeddings.parquet: load 1 "
        "million, query with and without a filter, recall@10 and p95, and write the comparison "
        "with a recommendation to reports/vector-store.md. Put every number you report into "
        "reports/numbers.csv as well.",
        "Put every number you report into",
    )
    talk.needs("/srv/bench/embeddings.parquet", "reports/vector-store.md", "reports/numbers.csv")
    talk.do(run("ls -la /srv/bench", "-rw-r--r-- 1 lab lab 3301245120 embeddings.parquet"))
    talk.do(write("bench/harness.py", "import time\n" + "def step(): ...\n" * 60))
    talk.needs("bench/harness.py")
    for name in STORES[:2]:
        _store(talk, name)
    talk.do(
        failed("terminal", {"command": "docker pull milvus"}, "no space left on device"),
        say="pgvector: recall@10 0.962, p95 41 ms. qdrant: 0.978, 12 ms. The disk of the machine "
        "is full; /srv/scratch has room.",
        values=("0.962", "0.978", "/srv/scratch"),
    )
    talk.user("Use /srv/scratch, but leave 50 GB free there.", "leave 50 GB free")
    go_on(talk, 0)


def _store(talk: Talk, name: str) -> None:
    random = talk.random
    config = f"bench/{name}.yaml"
    talk.do(write(config, "\n".join(f"option_{n}: {n * 7}" for n in range(40))))
    talk.do(run(f"docker run {name}", log(random, NOUNS, 120)))
    for settings in range(3):
        talk.do(
            run(f"python bench/harness.py {name} --ef {64 << settings}", log(random, NOUNS, 140))
        )
        talk.do(patch(config, f"ef: {settings}", f"ef: {64 << settings}"))
    talk.do(run(f"docker logs {name}", compile_run(random, NOUNS, 90)))
    talk.do(script(f"summary({name!r})", table(random, "id recall p50 p95 filtered_p95", 80)))


def go_on(talk: Talk, part: int) -> None:
    name = (*STORES[2:5], "pgvector")[part]
    talk.at(f"bench/{name}.yaml")
    _store(talk, name)
    talk.do(read("reports/numbers.csv", table(talk.random, "id recall p95 store_name", 60)))
    if part == 1:
        talk.user("go ahead")
    if part == 2:
        talk.user("The recommendation must fit on one page.", "must fit on one page")
