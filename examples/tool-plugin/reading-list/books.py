"""The file behind the list."""

import json
from pathlib import Path


class Books:
    def __init__(self, file):
        self.file = Path(file)

    def _read(self):
        return (
            json.loads(self.file.read_text()) if self.file.exists() else {"books": [], "turns": 0}
        )

    def _write(self, data):
        self.file.write_text(json.dumps(data, indent=2))

    def all(self):
        return self._read()["books"]

    def add(self, title, author):
        data = self._read()
        data["books"].append({"title": title, "author": author})
        self._write(data)

    def count_turn(self):
        data = self._read()
        data["turns"] += 1
        self._write(data)
