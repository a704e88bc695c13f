"""The material of the transcripts, made by a seeded generator.

Source files and what compilers and test runners say, logs, listings, tables, articles and letters.
Big and never the same twice, but small in the repository: a language is a few pieces with holes.
"""

import json
from pathlib import Path
from random import Random
from string import Template

MATERIAL = Path(__file__).parent / "material"
VERBS = ("load", "parse", "merge", "render", "cancel", "verify", "export", "refresh", "resolve")
STATES = ("deleted", "expired", "locked", "pending", "stale", "hidden", "frozen", "retried")
LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN")
ROUTES = ("/", "/login", "/api/v2/orders", "/api/v2/stock", "/static/app.js", "/health", "/search")
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "okhttp/4.12.0", "Googlebot/2.1")
USERS = ("root", "www-data", "postgres", "deploy")
WORDS = json.loads((MATERIAL / "words.json").read_text())


def names(random: Random, nouns: str) -> dict[str, str | int]:
    """What fills the holes; `nouns` are the words of the transcript's trade."""
    noun, other = random.sample(nouns.split(), 2)
    words = {"noun": noun, "other": other, "verb": random.choice(VERBS)}
    words["state"] = random.choice(STATES)
    titles = {word.title(): text.title().replace("_", "") for word, text in words.items()}
    upper = {word.upper(): text.upper() for word, text in words.items()}
    numbers = {
        "n": random.randint(2, 90),
        "status": random.choice((204, 304, 404, 410, 422, 512)),
        "width": random.choice((8, 16, 32)),
    }
    return words | titles | upper | numbers


def source(random: Random, language: str, nouns: str, lines: int) -> str:
    """A file in a language, of at least so many lines."""
    written = (MATERIAL / f"{language}.txt").read_text()
    pieces = [Template(piece.strip("\n")) for piece in written.split("%%")]
    text: list[str] = []
    while len(text) < lines:
        piece = random.choice(pieces).safe_substitute(names(random, nouns))
        text += [*piece.split("\n"), ""]
    return "\n".join(text)


def pytest_run(random: Random, nouns: str, tests: int, failing: str = "") -> str:
    """`failing`: `path::test`, a space, and the error."""
    made = [names(random, nouns) for _ in range(tests)]
    lines = [f"collected {tests} items", ""]
    for number, name in enumerate(made, 1):
        place = f"tests/test_{name['other']}.py::test_{name['verb']}_{name['noun']}_{number}"
        lines.append(f"{place:<64} PASSED [{number * 100 // tests:>3}%]")
    if not failing:
        return "\n".join([*lines, f"===== {tests} passed in {random.uniform(2, 90):.2f}s ====="])
    place, _, error = failing.partition(" ")
    lines += ["", "=== FAILURES ===", f"____ {place.rpartition('::')[2]} ____", "", f"E   {error}"]
    return "\n".join([*lines, f"FAILED {place} - {error}", f"=== 1 failed, {tests - 1} passed ==="])


def go_test_run(random: Random, nouns: str, tests: int, failing: str = "") -> str:
    lines = []
    for _ in range(tests):
        name = names(random, nouns)
        test = f"Test{name['Verb']}{name['Noun']}/{name['state']}_{name['n']}"
        lines += [f"=== RUN   {test}", f"--- PASS: {test} ({random.uniform(0, 0.9):.2f}s)"]
    ending = [f"    {failing}", "FAIL"] if failing else ["PASS"]
    return "\n".join([*lines, *ending])


def compile_run(random: Random, nouns: str, units: int, error: str = "") -> str:
    """What a build says: a line for each unit, warnings among them."""
    lines = []
    for number in range(1, units + 1):
        name = names(random, nouns)
        lines.append(f"[{number}/{units}] Compiling {name['noun']}-{name['verb']} v0.{name['n']}.1")
        if number % 7 == 0:
            place = f"{name['noun']}/{name['verb']}.c:{random.randint(10, 900)}"
            lines.append(f"warning: {place}: unused variable '{name['other']}' [-Wunused]")
    return "\n".join([*lines, error or f"Finished in {random.uniform(3, 80):.1f} s"])


def grep_hits(
    random: Random, folder: str, ending: str, word: str, nouns: str, hits: int
) -> list[str]:
    found = []
    for _ in range(hits):
        name = names(random, nouns)
        path = f"{folder}/{name['other']}/{name['noun']}_{name['verb']}{ending}"
        found.append(f"{path}:{random.randint(3, 400)}:    {word}({name['noun']}, {name['n']})")
    return found


def numbered(_random: Random, template: str, lines: int) -> str:
    """The same line again and again, with its number at `{n}`."""
    return "\n".join(template.replace("{n}", str(number)) for number in range(lines))


def log(random: Random, nouns: str, lines: int, day: str = "2026-03-14") -> str:
    """A service's own log."""
    words, text, second = nouns.split(), [], random.randint(0, 3000)
    for _ in range(lines):
        second += random.randint(0, 9)
        at = f"{day}T{second // 3600 + 6:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        one, other = random.sample(words, 2)
        event = random.choice(
            (
                f"{one} {random.randint(1000, 99999)} stored in {random.uniform(0.2, 90):.1f} ms",
                f"retrying {one} for {other} (attempt {random.randint(1, 4)})",
                f"{one} queue has {random.randint(0, 400)} entries, {other} is behind",
                f"connection {random.getrandbits(24):06x} to {other} closed by peer",
            )
        )
        text.append(f"{at} {random.choice(LEVELS):<5} {one}.worker[{random.randint(1, 8)}] {event}")
    return "\n".join(text)


def access_log(random: Random, lines: int, bad: int = 0) -> str:
    """A web server's log; `bad` in a hundred answers are 502."""
    text = []
    for number in range(lines):
        status = 502 if random.randrange(100) < bad else random.choice((200, 200, 200, 304, 404))
        address = f"10.{random.randint(0, 31)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        at = f"14/Mar/2026:0{6 + number // 3600}:{number // 60 % 60:02}:{number % 60:02} +0000"
        text.append(
            f'{address} - - [{at}] "GET {random.choice(ROUTES)} HTTP/1.1" {status} '
            f'{random.randint(180, 90000)} "-" "{random.choice(AGENTS)}"'
        )
    return "\n".join(text)


def processes(random: Random, nouns: str, lines: int) -> str:
    head = "USER         PID %CPU %MEM    VSZ   RSS STAT START   TIME COMMAND"
    words = nouns.split()
    rows = [
        f"{random.choice(USERS):<10} {random.randint(2, 99999):>6} {random.uniform(0, 40):>4.1f} "
        f"{random.uniform(0, 9):>4.1f} {random.randint(9999, 9999999):>7} "
        f"{random.randint(999, 999999):>6} Ssl  {random.randint(10, 23)}:{random.randint(10, 59)} "
        f"  {random.randint(0, 90)}:{random.randint(10, 59)} /usr/lib/{random.choice(words)}/"
        f"{random.choice(words)}d --shard={random.randint(0, 63)}"
        for _ in range(lines)
    ]
    return "\n".join([head, *rows])


def listing(random: Random, nouns: str, endings: str, lines: int) -> str:
    words, kinds = nouns.split(), endings.split()
    return "\n".join(
        f"-rw-r--r-- 1 deploy deploy {random.randint(90, 9999999):>8} "
        f"Mar {random.randint(1, 28):>2} {random.randint(10, 23)}:{random.randint(10, 59)} "
        f"{'_'.join(random.sample(words, 2))}_{number:03}{random.choice(kinds)}"
        for number in range(lines)
    )


def table(random: Random, columns: str, rows: int) -> str:
    """CSV; a column called `name` or `…_name` holds text."""
    heads = columns.split()
    lines = [",".join(heads)]
    for number in range(1, rows + 1):
        cells = [
            f"{head}-{random.getrandbits(20):05x}"
            if head.endswith("name")
            else f"{random.uniform(0, 5000):.2f}"
            for head in heads[1:]
        ]
        lines.append(",".join([str(number), *cells]))
    return "\n".join(lines)


def article(random: Random, topics: str, sentences: int, *, german: bool = False) -> str:
    """Paragraphs on the topics, separated by `|`."""
    subjects = topics.split("|")
    text, paragraph = [], []
    for number in range(1, sentences + 1):
        low = random.randint(2, 70)
        holes = {
            "topic": random.choice(subjects).strip(),
            "who": random.choice(WORDS["who"]),
            "wer": random.choice(WORDS["wer"]),
            "year": random.randint(2012, 2025),
            "n": random.randint(3, 900),
            "a": low,
            "b": low + random.randint(1, 30),
            "things": random.choice(("households", "sites", "studies", "cities", "teams")),
            "people": random.choice(WORDS["people"]),
        }
        pattern = (
            random.choice(WORDS["deutsch"])
            if german
            else " ".join(
                (
                    random.choice(WORDS["openings"]),
                    random.choice(WORDS["middles"]) + random.choice(WORDS["endings"]),
                )
            )
        )
        paragraph.append(pattern.format(**holes))
        if number % random.randint(4, 7) == 0:
            text.append(" ".join(paragraph))
            paragraph = []
    return "\n\n".join([*text, " ".join(paragraph)]).strip()


def german_article(random: Random, topics: str, sentences: int) -> str:
    return article(random, topics, sentences, german=True)


def results(random: Random, topics: str, sites: str, count: int = 5) -> list[tuple[str, str, str]]:
    """Hits of a web search on these topics."""
    found = []
    for _ in range(count):
        topic, site = random.choice(topics.split("|")).strip(), random.choice(sites.split())
        slug = "-".join(topic.lower().split()[:4])
        url = f"https://{site}/{random.randint(2019, 2026)}/{slug}-{random.randint(10, 999)}"
        found.append((f"{topic[:1].upper()}{topic[1:]} ({site})", url, article(random, topics, 2)))
    return found
