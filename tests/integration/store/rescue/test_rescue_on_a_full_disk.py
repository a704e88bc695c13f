"""No room for a repair: a clear error, and everything as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.store.rescue.stores import make, overwrite, root_of

ROOT = Path(__file__).resolve().parents[4]
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
MOUNTED = 'mount -t tmpfs -o size={size}k tmpfs "$0" && exec "$@"'
SCENE = """
import shutil, sys
from pathlib import Path
from hermes.core.errors import StoreFull
from hermes.store.sqlite.repair import repair

source, path = Path(sys.argv[1]), Path(sys.argv[2]) / "state.db"
shutil.copy(source, path)
try:
    print(repair(path).outcome)
except StoreFull as error:
    print(error, error.hint, sep="\\n")
    assert path.read_bytes() == source.read_bytes()
    left = {one.name for one in path.parent.iterdir()}
    assert left <= {"state.db", "state.db-wal", "state.db-shm", "state.db.rescue.lock"}, left
"""


def on_a_small_disk(folder, size, *command):
    """Run a command that alone sees a tmpfs of `size` KiB at `folder`."""
    script = ["sh", "-c", MOUNTED.format(size=size), str(folder), *command]
    return subprocess.run(
        [*NAMESPACE, *script], cwd=ROOT / "src", capture_output=True, text=True, timeout=100
    )


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    try:
        tried = on_a_small_disk(folder, 1000, "true")
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if tried.returncode != 0:
        pytest.skip(f"no right to mount a tmpfs here: {tried.stderr.strip()}")
    return folder


@pytest.mark.parametrize(
    ("share", "outcome"), [(1.3, "full"), (2.05, "full"), (2.6, "full"), (6, "rescued")]
)
def test_without_room_nothing_is_changed(disk, tmp_path, share, outcome):
    path = make(tmp_path / "source.db", messages=600)
    overwrite(path, root_of(path, "idx_sessions_source"))
    size = int(path.stat().st_size * share) // 1024
    done = on_a_small_disk(disk, size, sys.executable, "-c", SCENE, str(path), str(disk))
    assert done.returncode == 0, done.stderr
    if outcome == "full":
        assert "no space on the disk to repair" in done.stdout
        assert "Nothing was changed" in done.stdout
    else:
        assert done.stdout.strip() == outcome
