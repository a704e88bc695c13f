"""The file behind the notebook: one sentence a line."""

import hashlib
import re
from pathlib import Path


class Pages:
    def __init__(self, home, user=""):
        """`user` is empty for the owner; everybody else in a chat has a file of their own."""
        own = f"-{hashlib.sha256(user.encode()).hexdigest()[:12]}" if user else ""
        self.file = Path(home) / f"notebook{own}.txt"

    def all(self):
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def add(self, sentence):
        line = " ".join(sentence.split())
        if line not in self.all():
            with self.file.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def find(self, words):
        wanted = re.findall(r"\w{4,}", words.lower())
        return [line for line in self.all() if any(word in line.lower() for word in wanted)]

    def clear(self):
        self.file.unlink(missing_ok=True)
