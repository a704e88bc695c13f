"""What the container engine is asked for, and what its answers mean.

The engine here is a fake: a shell script in place of `docker` that notes its arguments. The tests
with a real one are in tests/integration/terminal.
"""

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import BackendUnavailable
from hermes.terminal.docker import (
    DockerHost,
    DockerOptions,
    engine_unavailable,
    qualified_name,
    run_arguments,
)
from hermes.terminal.remote import (
    HERMES_HOME,
    LineSplitter,
    Mount,
    credential_mounts,
    is_owner_gone,
    owner_mark,
    parse_volume,
    persistent_folder,
)
from tests.cases import cases

CASES = cases(__file__)

# `run` answers "ready" and waits for the end of its input, as the real container does.
FAKE = CASES["fake"]

Make = Callable[..., DockerHost]


class Fake:
    def __init__(self, folder: Path) -> None:
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        self.told: list[str] = []
        self.folder = folder

    def install(self, *programs: str) -> None:
        for program in programs:
            (self.bin / program).write_text(FAKE)
            (self.bin / program).chmod(0o755)

    def calls(self, *words: str) -> list[str]:
        """The calls that begin with one of these."""
        return [line for line in self.log.read_text().splitlines() if line.startswith(words)]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.fixture
async def make(fake: Fake) -> AsyncIterator[Make]:
    hosts: list[DockerHost] = []

    def make(
        dead: str = "", refused: str = "", config: str = "{}", path: str = "", **options: Any
    ) -> DockerHost:
        environment = {
            "PATH": path or f"{fake.bin}:{os.environ['PATH']}",
            "LOG": str(fake.log),
            "DEAD": dead,
            "REFUSED": refused,
            "CONFIG": config,
        }
        settings = {"image": "box", "sandbox_dir": str(fake.folder / "kept"), **options}
        options = DockerOptions(environment=environment, **settings)
        hosts.append(DockerHost(options, fake.told.append))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


def arguments(**options: Any) -> list[str]:
    settings = DockerOptions(image="box", **options)
    return run_arguments(
        settings, name="n", labels={"hermes": "1"}, mounts=[Mount("/a", "/b", True)], workdir="/w"
    )


def test_a_container_begins_with_nothing_and_gets_three_rights_back() -> None:
    line = " ".join(arguments())
    assert "--cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE --cap-add FOWNER" in line
    assert "--security-opt no-new-privileges --pids-limit 256" in line
    assert "--cpus 1 --memory 5120m --memory-swap 5120m" in line
    assert "--storage-opt size=51200m" in line
    assert "--mount type=bind,source=/a,target=/b,readonly" in line
    assert line.startswith("run --rm -i --pull=never --name n ")
    assert "--network" not in line and "--privileged" not in line


def test_values_of_variables_are_not_among_the_arguments() -> None:
    words = arguments(forward_env={"TOKEN": "very secret"})
    assert words[words.index("--env") + 1] == "TOKEN"
    assert not any("very secret" in word for word in words)


def test_zero_limit_adds_no_option() -> None:
    line = " ".join(arguments(cpu=0, memory=0, disk=0, network="none"))
    assert "--cpus" not in line and "--memory" not in line and "--storage-opt" not in line
    assert "--network none" in line


@pytest.mark.parametrize(("image", "expected"), CASES["podman gets the registry docker would use"])
def test_podman_gets_the_registry_docker_would_use(image: str, expected: str) -> None:
    assert qualified_name(image) == expected


def test_a_volume_is_host_container_and_mode(tmp_path: Path) -> None:
    assert parse_volume(f"{tmp_path}:/data") == Mount(str(tmp_path), "/data", False)
    assert parse_volume(f"{tmp_path}:/data:ro") == Mount(str(tmp_path), "/data", True)


def test_a_comma_in_a_path_is_quoted() -> None:
    assert Mount("/a, b", "/c").option() == 'type=bind,"source=/a, b",target=/c'


@pytest.mark.parametrize(("volume", "why"), CASES["volume that is wrong or hands over the"])
def test_a_volume_that_is_wrong_or_hands_over_the_machine_is_refused(volume: str, why: str) -> None:
    with pytest.raises(BackendUnavailable, match=why) as caught:
        parse_volume(volume)
    assert "docker_volumes" in caught.value.hint


def test_a_socket_is_refused_under_any_name(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "engine"))
        (tmp_path / "innocent").symlink_to(tmp_path / "engine")
        with pytest.raises(BackendUnavailable, match="controls the host"):
            parse_volume(f"{tmp_path}/innocent:/x")


def test_credential_files_come_from_the_home_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    assert credential_mounts(tmp_path, ["token", "missing"]) == (
        Mount(str(tmp_path / "token"), f"{HERMES_HOME}/token", True),
    )
    (tmp_path / "out").symlink_to("/etc/passwd")
    for name in ("../x", "/etc/passwd", "out"):
        with pytest.raises(BackendUnavailable, match="outside"):
            credential_mounts(tmp_path, [name])


def test_a_task_keeps_its_files_in_one_private_folder(tmp_path: Path) -> None:
    folder = persistent_folder(str(tmp_path), "../../etc/x y")
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert persistent_folder(str(tmp_path), "..") == tmp_path / "default"
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="cannot be kept"):
        persistent_folder(str(tmp_path / "file"), "x")


def test_an_owner_is_gone_when_its_process_ended_here() -> None:
    ended = subprocess.Popen(["true"])
    place, pid, start = owner_mark().rsplit(":", 2)
    ended.wait()
    assert not is_owner_gone(owner_mark())
    assert is_owner_gone(f"{place}:{ended.pid}:{start}")
    assert is_owner_gone(f"{place}:{pid}:{int(start) - 100}")
    for other in (f"elsewhere:{ended.pid}:{start}", "", "x", f"{place}:x:y"):
        assert not is_owner_gone(other)


def test_progress_comes_line_by_line() -> None:
    told: list[str] = []
    lines = LineSplitter(told.append)
    for piece in (b"one\ntw", b"o\r", b"\n\xe2", b"\x9c\x93 three\n"):
        lines.feed(piece)
    assert told == ["one", "two", "✓ three"]


@pytest.mark.parametrize(("complaint", "message", "hint"), CASES["each complaint has a reason"])
def test_each_complaint_has_a_reason_and_advice(complaint: str, message: str, hint: str) -> None:
    error = engine_unavailable("docker", complaint, "box")
    assert message in str(error)
    assert hint in error.hint
    assert "\n" not in str(error)


async def test_a_missing_image_is_fetched_and_the_user_sees_it(make: Make, fake: Fake) -> None:
    fake.install("docker")
    await make(program="docker", persistent=False).open()
    assert fake.told == ["fetching the image box", "layer 1: 50%", "layer 1: done", "all there"]
    assert fake.calls("docker pull") == ["docker pull -- box"]


async def test_podman_is_taken_when_docker_does_not_answer(make: Make, fake: Fake) -> None:
    fake.install("docker", "podman")
    await make(dead="docker", persistent=False).open()
    assert fake.calls("podman pull") == ["podman pull -- docker.io/library/box"]
    assert fake.calls("podman run")


async def test_docker_is_taken_when_both_answer(make: Make, fake: Fake) -> None:
    fake.install("docker", "podman")
    await make(persistent=False).open()
    assert not fake.calls("podman")


async def test_no_engine_that_answers_is_docker_s_error(make: Make, fake: Fake) -> None:
    fake.install("docker", "podman")
    with pytest.raises(BackendUnavailable, match="the docker engine does not run"):
        await make(dead="docker podman").open()


async def test_no_engine_at_all_says_what_to_install(make: Make, fake: Fake) -> None:
    with pytest.raises(BackendUnavailable, match="docker or podman is not installed") as caught:
        await make(path=str(fake.bin)).open()
    assert "terminal.backend" in caught.value.hint


async def test_options_an_engine_cannot_take_are_left_out_and_logged_once(make, fake, caplog):
    fake.install("docker")
    host = make(program="docker", persistent=False, refused="--storage-opt")
    await host.open()
    await host.close()
    await host.open()
    runs = fake.calls("docker run")
    assert ["--storage-opt" in run for run in runs] == [True, False, False]
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


async def test_an_option_that_must_hold_is_never_left_out(make: Make, fake: Fake) -> None:
    fake.install("docker")
    with pytest.raises(BackendUnavailable, match="--cap-drop is supported only elsewhere"):
        await make(program="docker", persistent=False, refused="--cap-drop").open()
    assert len(fake.calls("docker run")) == 1


@pytest.mark.parametrize(("config", "options", "workdir"), CASES["commands begin where their"])
async def test_commands_begin_where_their_files_are(make, fake, config, options, workdir):
    fake.install("docker")
    await make(program="docker", config=config, **options).open()
    run = fake.calls("docker run")[-1]
    assert (f"--workdir {workdir} " in run) if workdir else ("--workdir" not in run)


async def test_a_kept_root_begins_with_the_image_s_own(make: Make, fake: Fake) -> None:
    fake.install("docker")
    for _ in range(2):
        host = make(program="docker", task="one")
        await host.open()
        await host.close()
    assert len([run for run in fake.calls("docker run") if "hermes-seed" in run]) == 1
    kept = fake.folder / "kept/one"
    assert sorted(path.name for path in kept.iterdir()) == ["root", "workspace"]
