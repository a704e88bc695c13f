"""Logs, listings, tables, articles and letters, made by a seeded generator."""

import json
from random import Random

from tests.compaction.code_material import MATERIAL

LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN")
ROUTES = ("/", "/login", "/api/v2/orders", "/api/v2/stock", "/static/app.js", "/health", "/search")
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "okhttp/4.12.0", "Googlebot/2.1")
USERS = ("root", "www-data", "postgres", "deploy")
WORDS = json.loads((MATERIAL / "words.json").read_text())


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


def results(random: Random, topics: str, sites: str, count: int = 5) -> list[tuple[str, str, str]]:
    """Hits of a web search on these topics."""
    found = []
    for _ in range(count):
        topic, site = random.choice(topics.split("|")).strip(), random.choice(sites.split())
        slug = "-".join(topic.lower().split()[:4])
        url = f"https://{site}/{random.randint(2019, 2026)}/{slug}-{random.randint(10, 999)}"
        found.append((f"{topic[:1].upper()}{topic[1:]} ({site})", url, article(random, topics, 2)))
    return found
