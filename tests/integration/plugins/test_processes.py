"""Plugins that hang do not keep the program from ending."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.unit.plugins.stage import write_plugin


def test_a_hanging_provider_does_not_keep_the_process() -> None:
    program = (
        "import threading\n"
        "from hermes.plugins.isolation import IsolatedThread, IsolationLimits\n"
        "worker = IsolatedThread('hung', IsolationLimits(), print)\n"
        "worker.post('sync_turn', threading.Event().wait)\n"
        "try:\n"
        "    worker.call('prefetch', threading.Event().wait, 0.05)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "did not answer" in done.stdout


def test_threads_of_a_plugin_do_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    write_plugin(
        tmp_path / "plugins",
        "threads",
        """
        import threading, time
        threading.Thread(target=time.sleep, args=(600,)).start()

        def register(ctx):
            threading.Thread(target=time.sleep, args=(600,)).start()
        """,
    )
    program = textwrap.dedent(
        f"""
        from pathlib import Path
        from tests.unit.plugins.stage import Stage
        print([o.problem for o in Stage(Path({str(tmp_path)!r})).load("threads")])
        """
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={"PYTHONPATH": f"{root}:{root / 'src'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("['']\n", "")
