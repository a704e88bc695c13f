"""Conversations to fill a store with: the same on each run, and similar to real ones.

Sessions of about forty messages: a user, replies with tool calls, results. Texts of 50 to 2,000
characters of Zipf-distributed words and of code; about one in twelve is Chinese or Japanese. Only
the standard library is used, because the peer's Python imports this module too.
"""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]
"""A message: `session`, `role`, `content` and optional fields such as `tool_calls`."""

LONG_SESSION = "long"
LONG_MESSAGES = 2000
SESSION_MESSAGES = 40
CJK_SHARE = 0.08
SHORTEST, LONGEST = 50, 2000
SEED = 6

_ONSETS = ("b", "br", "c", "ch", "d", "f", "g", "gr", "l", "m", "n", "p", "qu", "r", "s", "st", "t")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "io", "ou")
_CODAS = ("", "", "n", "r", "s", "t", "l", "nd", "ck", "m")
_HAN = [chr(0x4E00 + 41 * number) for number in range(500)]
_KANA = ["です", "ます", "という", "について", "ファイル", "サーバー", "エラー", "ください", "では"]
_KANA += ["から", "まで", "テスト", "データ", "こと", "もの", "して", "された"]
_WORDS, _HAN_WORDS = 20_000, 4_000
_TOOLS = ("read_file", "terminal", "search_files", "write_file", "web_search")


class Vocabulary(NamedTuple):
    """Words by rank, the most frequent first."""

    words: list[str]
    han: list[str]
    weights: list[float]
    han_weights: list[float]


def vocabulary() -> Vocabulary:
    chance = random.Random(SEED)
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        # Frequent words are short ones.
        syllables = chance.randint(1, 2 if len(words) < 500 else 3)
        parts = (chance.choice(_ONSETS) + chance.choice(_VOWELS) for _ in range(syllables))
        words["".join(parts) + chance.choice(_CODAS)] = None
    han: dict[str, None] = {}
    while len(han) < _HAN_WORDS:
        han["".join(chance.choices(_HAN, k=chance.choice((2, 2, 2, 3, 4))))] = None
    return Vocabulary(list(words), list(han), _zipf(_WORDS), _zipf(_HAN_WORDS))


def _zipf(count: int) -> list[float]:
    return list(itertools.accumulate(1 / (rank + 2.7) for rank in range(count)))


class Writer:
    """Generates texts; the same seed gives the same texts."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.vocabulary = vocabulary()

    def text(self, shortest: int, longest: int) -> str:
        """Return prose, code or CJK text within these lengths; short texts are more frequent."""
        length = int(shortest * (longest / shortest) ** self.chance.random())
        draw = self.chance.random()
        if draw < CJK_SHARE:
            return self._cjk(max(SHORTEST, length // 3))
        return self._code(length) if draw < 0.3 else self._prose(length)

    def words(self, count: int) -> list[str]:
        return self.chance.choices(
            self.vocabulary.words, cum_weights=self.vocabulary.weights, k=count
        )

    def _prose(self, length: int) -> str:
        words = self.words(length // 4)
        for at in range(0, len(words), 12):
            words[at] = words[at].capitalize()
            words[at - 1] += "."
        return _fit(" ".join(words), length)

    def _code(self, length: int) -> str:
        lines: list[str] = []
        while sum(map(len, lines)) < length:
            a, b, c, d = self.words(4)
            number = self.chance.randrange(4096)
            lines.append(
                self.chance.choice(
                    (
                        f"def {a}_{b}({c}: int) -> str:",
                        f"    return self.{a}.{b}({c}={number}, {d}=None)",
                        f"src/{a}/{b}.py:{number}: error: {c} is not a {d}",
                        f"    if {a}_{b} != 0x{number:04x} and {c}[{number}]:",
                        f'  "{a}": {{"{b}": {number}, "{c}": "{d}"}},',
                    )
                )
            )
        return _fit("\n".join(lines), length)

    def _cjk(self, length: int) -> str:
        words = self.chance.choices(
            self.vocabulary.han, cum_weights=self.vocabulary.han_weights, k=length // 2
        )
        japanese = self.chance.random() < 0.4
        for at in range(4, len(words), 5):
            words[at] = self.chance.choice(_KANA) if japanese else words[at] + "，"
        return _fit("".join(words), length)


def _fit(text: str, length: int) -> str:
    return text[: max(SHORTEST, min(LONGEST, length))].ljust(SHORTEST, ".")


def corpus(count: int) -> Iterator[Line]:
    """Yield `count` messages; the first session is the long one, at most a quarter of them."""
    writer = Writer(SEED)
    long_one = (
        min(LONG_MESSAGES, count // 4) // 4 * 4
    )  # whole exchanges, so that every call has its result
    yield from _session(writer, LONG_SESSION, long_one)
    left = count - long_one
    for number in itertools.count():
        if left <= 0:
            return
        size = min(left, writer.chance.randint(SESSION_MESSAGES // 2, SESSION_MESSAGES * 3 // 2))
        yield from _session(writer, f"s{number:05}", size)
        left -= size


def _session(writer: Writer, session: str, size: int) -> Iterator[Line]:
    """Yield exchanges of a user message, a reply that calls a tool, its result and a reply."""
    for number in range(size):
        call = f"call_{session}_{number - number % 4}"
        name = _TOOLS[number // 4 % len(_TOOLS)]
        line: Line = {"session": session, "role": ("user", "assistant", "tool")[number % 4 % 3]}
        match number % 4:
            case 0:
                line["content"] = writer.text(50, 600)
            case 1:
                path = "/".join(writer.words(3))
                function = {"name": name, "arguments": json.dumps({"path": path})}
                line["content"] = writer.text(50, 300)
                line["tool_calls"] = [{"id": call, "type": "function", "function": function}]
            case 2:
                line |= {"content": writer.text(200, 2000), "tool_call_id": call, "tool_name": name}
            case _:
                line |= {"role": "assistant", "content": writer.text(100, 2000)}
        yield line


def write_corpus(target: Path, count: int) -> None:
    with target.open("w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in corpus(count))


def read_corpus(source: Path) -> list[Line]:
    with source.open() as file:
        return [json.loads(line) for line in file]


def queries() -> dict[str, list[str]]:
    """Return queries of each kind, some with many hits and some with few."""
    words, han, _, _ = vocabulary()
    ranks = (30, 120, 500, 1500, 6000)
    long_han = [word for word in han if len(word) >= 3]
    short_han = [word for word in han if len(word) == 2]
    return {
        "word": [words[rank] for rank in ranks],
        "two words": [f"{words[rank]} {words[rank // 3]}" for rank in ranks],
        "prefix": [f"{words[rank][:4]}*" for rank in ranks],
        "phrase": [f'"{words[rank % 7]} {words[rank // 8]}"' for rank in ranks],
        "OR": [f"{words[rank]} OR {words[rank + 7]}" for rank in ranks],
        "CJK 3+": [long_han[rank // 5] for rank in ranks],
        "CJK 2": [short_han[rank // 5] for rank in ranks],
    }
