"""A parser library in Rust: a bug report done, then work on speed that is going on."""

from tests.compaction.code_material import RUST, compile_run, go_test_run, grep_hits, source
from tests.compaction.talk import Talk, failed, patch, read, run, search, todo, write

NOUNS = "token span literal comment string escape number keyword"
LEXER = "crates/lexer/src/lib.rs"


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "We work on the lexer of a config language. No `unsafe` anywhere, the crate forbids it, "
        "and the minimum Rust version stays 1.70.",
        "No `unsafe` anywhere",
        "stays 1.70",
    )
    talk.says("All right.")
    talk.task('Issue 212 first: `"\\u{1F600}"` is lexed as two tokens. Fix it with a test.')
    talk.do(search("\\\\u", grep_hits(random, "crates/lexer", ".rs", "escape", NOUNS, 33)))
    for path in (LEXER, "crates/lexer/src/escape.rs", "crates/lexer/src/cursor.rs"):
        talk.do(read(path, source(random, RUST, NOUNS, 230)))
    for attempt in range(3):
        talk.do(patch("crates/lexer/src/escape.rs", f"'{attempt}' =>", f"'{attempt}'..='f' =>"))
        talk.do(run("cargo test -p lexer", compile_run(random, NOUNS, 90, "error[E0308]"), 101))
    talk.do(write("crates/lexer/tests/unicode.rs", source(random, RUST, NOUNS, 60)))
    talk.do(run("cargo test -p lexer", go_test_run(random, NOUNS, 120)))
    talk.says("Issue 212 is fixed: the braces of an escape may hold up to six digits.")
    talk.user("Nice. Squash it into one commit, subject in the imperative.", "in the imperative")
    talk.do(run("git reset --soft HEAD~3 && git commit -m 'Lex long unicode escapes'", "[main 9f]"))
    talk.says("Done.")
    _speed(talk)


def _speed(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Now speed. `cargo bench -p lexer` says 118 MB/s on benches/big.conf; I want 300 MB/s or "
        "more without changing the public API of crates/lexer/src/lib.rs. Work step by step, "
        "measure after each step, keep what helps and write the numbers into docs/lexer-speed.md.",
        "without changing the public API",
    )
    talk.needs(LEXER, "benches/big.conf", "docs/lexer-speed.md")
    talk.do(todo("> baseline", "  table for classes", "  memchr for strings", "  fewer clones"))
    talk.do(read(LEXER, source(random, RUST, NOUNS, 380)))
    talk.do(read("crates/lexer/benches/throughput.rs", source(random, RUST, NOUNS, 120)))
    talk.needs("crates/lexer/benches/throughput.rs")
    for number, speed in enumerate((118, 131, 129, 164, 171)):
        talk.do(run("cargo bench -p lexer", compile_run(random, NOUNS, 130, f"{speed} MB/s")))
        talk.do(patch(LEXER, f"let step{number} = 1;", f"let step{number} = table[b];", number))
    talk.do(
        failed("terminal", {"command": "perf record cargo bench"}, "perf: not permitted"),
        say="The class table brings 171 MB/s; commit 4be1c7d holds it. `perf` is not allowed here, "
        "so I go by `cargo bench`.",
        values=("171 MB/s", "4be1c7d"),
    )
    talk.user("Use the crate memchr if you like, but pin it to 2.6.", "pin it to 2.6")
    go_on(talk, 0)


def go_on(talk: Talk, part: int) -> None:
    random = talk.random
    path = f"crates/lexer/src/{('strings', 'numbers', 'trivia', 'spans')[part]}.rs"
    talk.at(path)
    talk.do(write(path, source(random, RUST, NOUNS, 160)))
    for attempt in range(5):
        speed = 180 + 12 * attempt + 20 * part
        talk.do(patch(path, f"        {attempt} => skip(),", f"        {attempt} => find(rest),"))
        talk.do(run("cargo bench -p lexer", compile_run(random, NOUNS, 120, f"{speed} MB/s")))
    talk.do(patch("docs/lexer-speed.md", f"| step {part} | |", f"| step {part} | {speed} MB/s |"))
    if part == 1:
        talk.user("How far are we?")
        talk.says(f"At {speed} MB/s, numbers are next.")
        talk.user("ok go on then, and no benchmarks on battery please", "no benchmarks on battery")
