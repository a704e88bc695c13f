"""Runs on Ray: the same files as without it, and a node that is lost."""

import asyncio
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hermes.batch import BatchRun, Progress, RunOptions
from hermes.core.errors import UsageError
from tests.fakes.batch_work import LineSpec, numbered
from tests.installed import python_packages

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with Ray, which the environment of the tests does not have."""
    return str(python_packages("ray-python") / "bin" / "python")


def run_script(*command: str) -> str:
    """Run one of the scripts below in a process of its own: Ray changes the one it is used in."""
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT, sysconfig.get_path("purelib"))))
    env = {**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


async def test_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Ray is not installed") as error:
        async with BatchRun(tmp_path, LineSpec(rows=numbered(1)), RunOptions(ray_address="local")):
            pass
    assert error.value.hint == "hermes setup ray"


def test_files_are_those_of_a_run_without_ray(python: str, tmp_path: Path) -> None:
    run_script(python, __file__, "same", str(tmp_path))
    for name in ("batch_001_output.jsonl", "batch_004_output.jsonl"):
        plain, ray = ((tmp_path / run / name).read_bytes() for run in ("plain", "ray"))
        assert sorted(plain.splitlines()) == sorted(ray.splitlines())
        assert plain


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_items_of_a_lost_node_are_done_on_another_one(python: str, tmp_path: Path) -> None:
    """Two nodes of one machine need a network namespace of their own."""
    inside = f"ip link set lo up && exec {python} {__file__} lost {tmp_path}"
    assert run_script("unshare", "-n", "sh", "-c", inside).splitlines()[-1] == "complete 200 200"


async def compare(folder: Path) -> None:
    spec = LineSpec(rows=(*numbered(30), {"do": "fail"}, {"do": "discard"}, *numbered(5)))
    for name, options in {
        "plain": RunOptions(processes=0),
        "ray": RunOptions(processes=2, ray_address="local"),
    }.items():
        async with BatchRun(folder / name, spec, options) as run:
            outcome = await run.execute()
        assert outcome.counts["done"] == 35, outcome
        assert outcome.counts["failed"] == outcome.counts["discarded"] == 1


async def lose_a_node(folder: Path) -> None:
    from ray.cluster_utils import Cluster

    from hermes.batch import read_items
    from tests.fakes.batch_work import CountingServer, lines_of

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    other = cluster.add_node(num_cpus=1)
    both = asyncio.Event()

    def report(progress: Progress) -> None:
        if progress.workers == 2:
            both.set()

    with CountingServer(delay=0.2) as server:
        spec = LineSpec(rows=numbered(200), calls=2, port=server.port)
        options = RunOptions(concurrency=8, ray_address=cluster.address, stop_seconds=5.0)
        async with BatchRun(folder / "run", spec, options, report) as run:
            executing = asyncio.ensure_future(run.execute())
            await both.wait()
            await asyncio.to_thread(server.wait_for_calls, server.asked.total() + 20)
            await asyncio.to_thread(cluster.remove_node, other, allow_graceful=False)
            outcome = await executing
        repeated = sum(count - 1 for count in server.asked.values())
    lost = [record.crashes for record in read_items(folder / "run") if record.crashes]
    assert 1 <= len(lost) <= 4, lost
    assert repeated <= 8, "one running call and one that was on its way, for each item of the node"
    sys.stdout.write(f"{outcome.ended} {outcome.counts['done']} {len(lines_of(folder / 'run'))}\n")
    cluster.shutdown()


if __name__ == "__main__":
    script = {"same": compare, "lost": lose_a_node}[sys.argv[1]]
    asyncio.run(script(Path(sys.argv[2])))
