"""When the environment is brought up to date, and what survives an accident."""

import hashlib
import json
import os
import re
import signal
import stat
import time
import zipfile
from pathlib import Path

import pytest

from tests.integration.launcher.checkout import Checkout, program

UPDATING = r"hermes: updating the environment in \.venv \.\.\. done after \d+ s\n"
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one installable package, `tiny` 1.0."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "X = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("tiny-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return folder


def without_uv(used: Checkout, wheels: Path) -> None:
    """Leaves pip alone with a folder of wheels instead of an index."""
    (Path(used.path.split(":")[0]) / "uv").unlink()
    used.variables.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))


def pin(wheels: Path, digest: str | None = None, name: str = "tiny") -> str:
    (wheel,) = wheels.glob(f"{name}-*")
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name}==1.0 \\\n    --hash=sha256:{digest}\n"


def installed(checkout: Checkout, module: str) -> bool:
    return any((checkout.root / ".venv").glob(f"lib/python3*/site-packages/{module}.py"))


def test_changed_lock_is_installed_with_uv(used: Checkout, uv_calls: Path) -> None:
    used.edit_lock()
    result = used.run("go")
    assert re.fullmatch(UPDATING, result.stderr)
    assert json.loads(result.stdout)["arguments"] == ["go"]
    (call,) = uv_calls.read_text().splitlines()
    assert call.startswith("pip install --compile-bytecode --python ")
    assert call.endswith(f"--require-hashes -r {used.root / 'requirements.lock'}")
    assert used.run().stderr == ""


def test_changed_lock_is_installed_with_pip_when_there_is_no_uv(used, wheels):
    without_uv(used, wheels)
    used.edit_lock(text=pin(wheels))
    result = used.run()
    assert result.returncode == 0, result.stderr
    assert installed(used, "tiny")
    assert used.run().stderr == ""


@pytest.mark.parametrize(("ends_with", "by_pip"), [(0, False), (2, True)])
def test_a_uv_among_the_packages_installs_the_others(used, wheels, ends_with, by_pip):
    without_uv(used, wheels)
    calls = used.root / "calls"
    with zipfile.ZipFile(wheels / "uv-1.0-py3-none-any.whl", "w") as wheel:
        script = f'#!/bin/sh\necho "$@" >>"{calls}"\nexit {ends_with}\n'
        program_in_it = zipfile.ZipInfo("uv-1.0.data/scripts/uv")
        program_in_it.external_attr = (stat.S_IFREG | 0o755) << 16
        wheel.writestr(program_in_it, script)
        wheel.writestr("uv-1.0.dist-info/METADATA", METADATA.replace("tiny", "uv"))
        wheel.writestr("uv-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("uv-1.0.dist-info/RECORD", "")
    used.edit_lock(text=f"{pin(wheels)}{pin(wheels, name='uv')}")
    assert used.run().returncode == 0
    (call,) = calls.read_text().splitlines()
    assert call.endswith(f"--require-hashes -r {used.root / 'requirements.lock'}")
    assert installed(used, "tiny") is by_pip


def test_uv_that_fails_leaves_the_work_to_pip(used: Checkout, wheels: Path) -> None:
    without_uv(used, wheels)
    program(Path(used.path.split(":")[0]), "uv", "#!/bin/sh\nexit 2\n")
    used.edit_lock(text=pin(wheels))
    assert used.run().returncode == 0
    assert installed(used, "tiny")


def test_wrong_hash_is_refused_with_the_reason(used: Checkout, wheels: Path) -> None:
    without_uv(used, wheels)
    used.edit_lock(text=pin(wheels, digest="0" * 64))
    for _ in range(2):  # a failed set-up is tried again, not taken for done
        result = used.run()
        assert result.returncode == 1
        assert result.stdout == ""
        assert "THESE PACKAGES DO NOT MATCH THE HASHES" in result.stderr
        assert "serves other files than the lock names" in result.stderr.splitlines()[-1]
        assert "Traceback" not in result.stderr
    assert not installed(used, "tiny")


def test_wider_set_that_cannot_be_had_leaves_the_narrower_one_working(used, wheels):
    without_uv(used, wheels)
    used.edit_lock("requirements-dev.lock", pin(wheels, digest="0" * 64))
    assert used.set_up("requirements-dev.lock").returncode == 1
    result = used.run("go")
    assert (result.returncode, result.stderr) == (0, "")


def test_wider_set_is_updated_never_narrowed(used: Checkout, uv_calls: Path) -> None:
    assert used.set_up("requirements-dev.lock").returncode == 0
    used.edit_lock("requirements-dev.lock")
    used.edit_lock("requirements.lock")
    used.run()
    used.set_up("requirements.lock")
    locks = [Path(call.split(" -r ")[1]).name for call in uv_calls.read_text().splitlines()]
    assert locks == ["requirements-dev.lock", "requirements-dev.lock"]
    assert used.run().stderr == ""


def extra_lock(wheels: Path, digest: str | None = None) -> str:
    return f"{pin(wheels, digest)}    # for other, small\n"


def test_an_extra_is_installed_from_its_lock_and_its_packages_are_named(used, wheels):
    without_uv(used, wheels)
    used.edit_lock("requirements-extras.lock", extra_lock(wheels))
    done = used.set_up("requirements.lock", "--extra", "small")
    assert (done.returncode, done.stdout) == (0, "tiny 1.0\n"), done.stderr
    assert "installing small into .venv ... done after" in done.stderr
    assert installed(used, "tiny")
    again = used.set_up("requirements.lock", "--extra", "small")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert used.run().stderr == ""


def test_packages_of_other_extras_are_not_installed(used: Checkout, wheels: Path) -> None:
    without_uv(used, wheels)
    used.edit_lock("requirements-extras.lock", extra_lock(wheels))
    done = used.set_up("requirements.lock", "--extra", "nothing")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no extra 'nothing' in this version" in done.stderr
    assert not installed(used, "tiny")


def test_an_extra_that_was_removed_by_hand_is_installed_again(used: Checkout, wheels: Path) -> None:
    without_uv(used, wheels)
    used.edit_lock("requirements-extras.lock", extra_lock(wheels))
    used.set_up("requirements.lock", "--extra", "small")
    python = used.root / ".venv" / "bin" / "python"
    used.run("-m", "pip", "uninstall", "-q", "-y", "tiny", program=python)
    assert not installed(used, "tiny")
    assert used.set_up("requirements.lock", "--extra", "small").stdout == "tiny 1.0\n"


def test_a_changed_lock_of_the_extras_updates_those_who_have_one(used, uv_calls, wheels):
    used.edit_lock("requirements-extras.lock", extra_lock(wheels))
    assert used.run().stderr == ""  # without extras it does not matter
    used.set_up("requirements.lock", "--extra", "small")
    used.edit_lock("requirements-extras.lock", f"{extra_lock(wheels)}# newer\n")
    assert re.fullmatch(UPDATING, used.run().stderr)
    assert used.run().stderr == ""
    used.edit_lock("requirements-dev.lock")
    assert used.set_up("requirements-dev.lock").returncode == 0
    files = [call.partition(" -r ")[2] for call in uv_calls.read_text().splitlines()]
    assert [each.endswith("extras.txt") for each in files] == [True, True, True]


def test_an_extra_with_a_wrong_hash_is_refused_and_everything_else_works(used, wheels):
    without_uv(used, wheels)
    used.edit_lock("requirements-extras.lock", extra_lock(wheels, digest="0" * 64))
    done = used.set_up("requirements.lock", "--extra", "small")
    assert (done.returncode, done.stdout) == (1, "")
    assert "serves other files than the lock names" in done.stderr.splitlines()[-1]
    assert not installed(used, "tiny")
    result = used.run("go")
    assert (result.returncode, result.stderr) == (0, "")


def test_unknown_lock_is_refused(used: Checkout) -> None:
    result = used.set_up("other.lock")
    assert result.returncode == 2
    assert "unknown lock 'other.lock'" in result.stderr


def test_killed_set_up_is_redone_from_nothing(used: Checkout, uv_calls: Path) -> None:
    folder = Path(used.path.split(":")[0])
    program(folder, "uv", '#!/bin/sh\n: >"$(dirname "$0")/started"\nexec sleep 60\n')
    used.edit_lock()
    running = used.start()
    while not (folder / "started").exists():
        assert running.poll() is None
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    leftover = used.root / ".venv" / "half-installed"
    leftover.touch()
    (folder / "uv").unlink()

    result = used.run("go")
    assert "setting up" in result.stderr
    assert json.loads(result.stdout)["arguments"] == ["go"]
    assert not leftover.exists()
    assert used.run().stderr == ""


def test_two_at_once_set_up_only_once(used: Checkout, uv_calls: Path) -> None:
    folder = Path(used.path.split(":")[0])
    program(folder, "uv", '#!/bin/sh\necho "$@" >>"$(dirname "$0")/calls"\nsleep 1\n')
    used.edit_lock()
    running = [used.start(name) for name in ("first", "second")]
    results = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], results
    names = sorted(json.loads(out)["arguments"][0] for out, _ in results)
    assert names == ["first", "second"]
    assert len(uv_calls.read_text().splitlines()) == 1


def test_lost_interpreter_is_replaced(used: Checkout) -> None:
    (used.root / ".venv" / "bin" / "python").unlink()
    (used.root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")
    result = used.run("go")
    assert "setting up" in result.stderr
    assert json.loads(result.stdout)["arguments"] == ["go"]
