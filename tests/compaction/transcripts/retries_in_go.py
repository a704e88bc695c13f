"""A Go service: an incident that was fixed, then retries in the HTTP client."""

from tests.compaction.code_material import GO, compile_run, go_test_run, grep_hits, source
from tests.compaction.talk import Talk, failed, patch, read, run, search, write
from tests.compaction.text_material import log

NOUNS = "ledger account transfer quote batch tenant webhook balance"
CLIENT = "internal/bank/client.go"


def play(talk: Talk) -> None:
    random = talk.random
    pasted = log(random, NOUNS, 140)
    talk.task(
        "find the cause of the nightly crash of ledgerd",
        "standard library only",
        "gofmt",
        within=(
            "Please {task}. House rules for this repository: standard library only, everything "
            f"passes gofmt, and errors are wrapped with %w. Here is the log:\n\n{pasted}"
        ),
    )
    for name in ("cmd/ledgerd/main.go", "internal/ledger/batch.go", "internal/ledger/post.go"):
        talk.do(read(name, source(random, GO, NOUNS, 210)))
    talk.do(search("go func", grep_hits(random, "internal", ".go", "go func", NOUNS, 47)))
    talk.do(run("go vet ./...", compile_run(random, NOUNS, 60)))
    race = "WARNING: DATA RACE in internal/ledger/batch.go:88"
    for _ in range(3):
        talk.do(run("go test -race ./internal/...", go_test_run(random, NOUNS, 110, race), 1))
        talk.do(patch("internal/ledger/batch.go", "b.items[id] = item", "b.put(id, item)", 88))
    talk.do(run("go test -race ./internal/...", go_test_run(random, NOUNS, 110)))
    talk.says("The map of a batch was written by two goroutines. It has a mutex now; fixed.")
    talk.task("Great. Bump the module to go 1.23 and make CI use it as well.")
    talk.do(patch("go.mod", "go 1.21", "go 1.23", 3))
    talk.do(read(".github/workflows/ci.yml", "\n".join(f"  step_{n}: run" for n in range(130))))
    talk.do(patch(".github/workflows/ci.yml", "go-version: '1.21'", "go-version: '1.23'", 14))
    for _ in range(4):
        talk.do(run("go build ./...", compile_run(random, NOUNS, 150)))
    talk.says("go.mod and CI are on 1.23.")
    _retries(talk)


def _retries(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Now the bank client: give internal/bank/client.go retries with exponential backoff and "
        "jitter for 429 and 5xx, honour Retry-After, at most 4 attempts and 20 seconds in all, and "
        "make it configurable in internal/config/bank.go. POST /transfers must only be retried "
        "with an idempotency key.",
        "must only be retried with an idempotency key",
        "at most 4 attempts and 20 seconds in all",
    )
    talk.needs(CLIENT, "internal/config/bank.go")
    talk.do(
        read(CLIENT, source(random, GO, NOUNS, 320)),
        read("internal/config/bank.go", source(random, GO, NOUNS, 110)),
        think="The client has its own transport. I should wrap Do and leave the transport alone.",
    )
    talk.do(search("bank.New", grep_hits(random, "internal", ".go", "bank.New", NOUNS, 31)))
    talk.do(
        write("internal/bank/retry.go", source(random, GO, NOUNS, 140)),
        say="The sandbox of the bank is at sandbox.bank.internal:9443 and answers 429 after 30 "
        "calls a minute; I use that for a test.",
        values=("sandbox.bank.internal:9443",),
    )
    talk.needs("internal/bank/retry.go")
    talk.do(failed("terminal", {"command": "golangci-lint run"}, "the command was not found"))
    for attempt in range(6):
        old, new = f"time.Sleep({attempt})", f"sleep(ctx, backoff({attempt}))"
        talk.do(patch("internal/bank/retry.go", old, new, 12 * attempt + 9))
        bad = f"retry_test.go:{40 + attempt}: got {attempt + 5} attempts, want 4"
        talk.do(run("go test ./internal/bank/", go_test_run(random, NOUNS, 90, bad), 1))
    talk.user(
        "You sleep without the context. Cancelling must work at once.", "Cancelling must work"
    )
    go_on(talk, 0)


def go_on(talk: Talk, part: int) -> None:
    random = talk.random
    names = ("retry_test.go", "budget.go", "metrics.go", "transport.go")
    path = f"internal/bank/{names[part]}"
    talk.needs(path)
    talk.do(write(path, source(random, GO, NOUNS, 150)))
    talk.do(read(CLIENT, source(random, GO, NOUNS, 260)))
    for attempt in range(4):
        talk.do(patch(path, f"case {attempt}:", f"case {attempt}, {attempt + 4}:", 30 + attempt))
        bad = f"{names[part]}:{attempt + 61}: context deadline exceeded"
        talk.do(run("go test ./internal/bank/", go_test_run(random, NOUNS, 120, bad), 1))
    if part == 3:
        talk.user("weiter so")
