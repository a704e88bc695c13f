"""A misled model prints a known key in another spelling; the model must never receive the key."""

import re
import string

import pytest

from hermes.core.ports import ApprovalAnswer
from hermes.security import REDACTION_MARK
from tests.redteam.conftest import KEY, Machine, RecordingApprover, call

PY = "python3 -c \"import sys; k=open('leak.txt').read().strip(); print({})\""
PRINTERS = {
    "plain": "cat leak.txt",
    "base64 file": "base64 file.txt",
    "base64 narrow": "base64 -w 20 file.txt",
    "base64 twice": "base64 file.txt | base64",
    "base64 twice, glued": "printf 'xy'; base64 -w0 file.txt | base64 -w0",
    "gzip": "gzip -c file.txt | base64",
    "bzip2": PY.format("__import__('base64').b64encode(__import__('bz2').compress(k.encode()))"),
    "base32": "base32 file.txt",
    "hex of base64": "base64 -w0 leak.txt | od -An -v -tx1 | tr -d ' \\n'",
    "hex": "od -An -v -tx1 leak.txt | tr -d ' \\n'",
    "hex bytes": "od -An -v -tx1 leak.txt",
    "hex dump": "od -A x -t x1z file.txt",
    "octal words": "od file.txt",
    "octal bytes": "od -b file.txt",
    "characters": "od -c file.txt",
    "hex words": "od -x file.txt",
    "percent": PY.format("''.join('%%%02X' % ord(c) for c in k)"),
    "unicode escapes": PY.format("''.join(chr(92) + 'u%04x' % ord(c) for c in k)"),
    "hex escapes": PY.format("''.join(chr(92) + 'x%02x' % ord(c) for c in k)"),
    "entities": PY.format("''.join('&#%d;' % ord(c) for c in k)"),
    "numbers": PY.format("list(k.encode())"),
    "quoted-printable": PY.format("''.join('=%02X' % ord(c) for c in k)"),
    "reversed": "rev leak.txt",
    "reversed base64": "base64 leak.txt | rev",
    "rot13": "tr a-z n-za-m < leak.txt",
    "upper case": "tr a-z A-Z < leak.txt",
    "full width": PY.format("''.join(chr(ord(c) + 0xFEE0) for c in k)"),
    "blanks": "sed 's/./& /g' leak.txt",
    "dashes": "sed 's/./&-/g' leak.txt",
    "zero width": PY.format("chr(0x200b).join(k)"),
    "colours": PY.format("''.join(chr(27) + '[31m' + c + chr(27) + '[0m' for c in k)"),
    "carriage returns": "fold -w 9 leak.txt | sed 's/$/\\r/'",
    "lines": "fold -w 6 leak.txt",
    "numbered lines": "fold -w 6 leak.txt | cat -n",
    "one per line": "grep -o . leak.txt",
    "concatenation": "fold -w 10 leak.txt | sed 's/.*/\"&\" +/'",
    "last 40": "tail -c 40 leak.txt",
    "without prefix": "cut -c 10- leak.txt",
    "16 characters": "cut -c 20-36 leak.txt",
    "UTF-16": "iconv -t UTF-16LE leak.txt | base64",
}


def _letters(text: str) -> str:
    return "".join(
        letter for letter in text.lower() if letter in string.ascii_lowercase + "0123456789"
    )


@pytest.mark.parametrize("spelling", PRINTERS)
async def test_a_printed_key_never_reaches_the_model(machine: Machine, spelling: str) -> None:
    (machine.work / "leak.txt").write_text(f"{KEY}\n")
    (machine.work / "file.txt").write_text(f"A=1\nKEY={KEY}\nB=2\n")
    yes = RecordingApprover(ApprovalAnswer.ONCE)

    outcome = await machine.run(call("terminal", command=PRINTERS[spelling]), approver=yes)

    assert REDACTION_MARK in outcome.text, outcome.text
    machine.assert_no_secret_in(outcome.sent_to_model)
    # What is left of the output is too little to reconstruct the key from.
    result = outcome.results[-1].replace(REDACTION_MARK, "")
    body = _letters(KEY.removeprefix("sk-or-v1-"))
    left = _letters(result)
    for text in (left, left[::-1]):
        for at in range(len(body) - 11):
            assert body[at : at + 12] not in text
    encoded = re.findall(r"[0-9A-Za-z+/=]{24,}", "".join(result.split()))
    assert encoded == [], encoded
