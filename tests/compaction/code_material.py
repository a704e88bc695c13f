"""Source files and what compilers and test runners say, made by a seeded generator.

Big and never the same twice, but small in the repository: a language is a few pieces with holes.
"""

from pathlib import Path
from random import Random
from string import Template

MATERIAL = Path(__file__).parent / "material"
PYTHON, GO, RUST, TYPESCRIPT, SQL, C = (
    (MATERIAL / f"{name}.txt").read_text()
    for name in ("python", "go", "rust", "typescript", "sql", "c")
)
VERBS = ("load", "parse", "merge", "render", "cancel", "verify", "export", "refresh", "resolve")
STATES = ("deleted", "expired", "locked", "pending", "stale", "hidden", "frozen", "retried")


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
    """A file in a `language` of this module, of at least so many lines."""
    pieces = [Template(piece.strip("\n")) for piece in language.split("%%")]
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
