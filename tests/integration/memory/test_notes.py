"""Notes that several processes write."""

import subprocess
import sys
from pathlib import Path

from hermes.memory.notes import MemoryScope, NoteFile, note_locations

WRITER = """
import sys
from pathlib import Path
from hermes.memory.notes import MemoryScope, NoteFile, note_locations

folder, name = Path(sys.argv[1]), sys.argv[2]
file = NoteFile(folder, note_locations(folder, MemoryScope(chat="c"))["chat"], 60)
for number in range(15):
    file.change(lambda before: (*before, f"{name} {number}"))
"""


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "home" / "memories"
    names = ("a", "b", "c")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(root), name], stderr=subprocess.PIPE)
        for name in names
    ]
    for writer in writers:
        _, problem = writer.communicate(timeout=60)
        assert writer.returncode == 0, problem.decode()
    found = NoteFile(root, note_locations(root, MemoryScope(chat="c"))["chat"], 10).read()
    assert sorted(found) == sorted(f"{name} {number}" for name in names for number in range(15))
    for name in names:
        own = [entry for entry in found if entry.startswith(name)]
        assert own == [f"{name} {number}" for number in range(15)]
    assert not list(root.rglob("*.tmp"))
