"""Lock files that are out of step with pyproject.toml are found without the network."""

from pathlib import Path

import pytest

from scripts import locks

PROJECT = Path(__file__).with_name("locked_project.toml").read_text()
PIN = "{} \\\n    --hash=sha256:00\n"
DEV = "requirements-dev.lock"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    pins = [PIN.format(pin) for pin in ("foo-bar==1.2", "runtime==2.0", "chatter==4", "checker==3")]
    (tmp_path / "requirements.lock").write_text(pins[0])
    (tmp_path / "requirements-dev.lock").write_text("".join(pins))
    extras = zip(pins, ("web", "local", "telegram"), strict=False)
    lock = "".join(f"{pin}    # for {extra}\n" for pin, extra in extras)
    (tmp_path / "requirements-extras.lock").write_text(lock)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_locks_in_step_are_accepted(root: Path) -> None:
    assert list(locks.findings(root)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "finding"),
    [
        ("pyproject.toml", '["checker"]', '["checker", "typist>=1"]', "no pin for 'typist>=1'"),
        (DEV, "foo-bar==1.2", "foo-bar==1.3", "foo-bar differs from another lock"),
        (DEV, PIN.format("checker==3"), "checker==3\n", "no hash for checker==3"),
    ],
)
def test_lock_that_is_out_of_step_is_named(root, file, old, new, finding) -> None:
    edit(root / file, old, new)
    assert list(locks.findings(root)) == [f"{DEV}: {finding}; run `make lock`"]


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("# for local", "# for web", "'runtime>=2' is not for local"),
        ("# for web", "# for web, gone", "foo-bar is for gone"),
        ("    # for telegram\n", "", "chatter is for no extra"),
        ("foo-bar==1.2", "foo-bar==1.3", "foo-bar differs from another lock"),
    ],
)
def test_lock_of_the_extras_that_is_out_of_step_is_named(root, old, new, finding) -> None:
    edit(root / "requirements-extras.lock", old, new)
    assert f"requirements-extras.lock: {finding}; run `make lock`" in list(locks.findings(root))


def test_a_pre_release_of_a_dependency_is_named(root: Path) -> None:
    for name in ("dev", "extras"):
        edit(root / f"requirements-{name}.lock", "runtime==2.0", "runtime==3.0a1")
    wrong = "a pre-release for 'runtime>=2'; limit it in pyproject.toml"
    assert set(locks.findings(root)) == {
        f"requirements-{name}.lock: {wrong}" for name in ("dev", "extras")
    }


def test_collection_that_lacks_a_package_is_named(root: Path) -> None:
    edit(
        root / "pyproject.toml",
        "[dependency-groups]",
        'all = ["foo-bar>=1"]\n\n[dependency-groups]',
    )
    (found,) = locks.findings(root)
    assert found.startswith("pyproject.toml: the extra 'all' differs from what it repeats: ")
