"""`vf-eval` of verifiers on the tasks of `programs/copy_word_v1.py`, for the tests and `bench`.

with release_of_checkout() as version:
    subprocess.run(vf_eval(environment, url, *hermes_harness(version)), env=variables(folder))
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.adapters.environments import Environment, python_with_hermes
from tests.installed import CACHE, ENVIRONMENT

REQUIREMENT = "verifiers==0.4.0"
PROGRAMS = Path(__file__).with_name("programs")
WORDS = ("alder", "birch", "cedar")  #: One for each task.
KEPT = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
NULL_HARNESS = ("--env.agent.harness.id", "null")


@contextmanager
def release_of_checkout() -> Iterator[str]:
    """Put this checkout where the harness looks for a release; yield the name of the release."""
    version = f"v0-{secrets.token_hex(6)}"
    release = Path(f"/var/tmp/vf-hermes-agent-{version}")  # the folder is fixed by the harness
    try:
        python_with_hermes(release / ".venv")
        (release / ".ready").touch()
        yield version
    finally:
        shutil.rmtree(release, ignore_errors=True)


def hermes_harness(version: str) -> tuple[str, ...]:
    named = ("--env.agent.harness.id", "hermes_on_host")
    return (*named, "--env.agent.harness.version", version)


def vf_eval(environment: Environment, url: str, *options: str) -> list[str]:
    """Return the command. It never uploads its results."""
    return [
        *(environment.program("vf-eval"), "copy_word_v1", "--model", "lab-model", "--no-push"),
        *("--client.base-url", f"{url}/v1", "--client.api-key-var", "KEY"),
        *("--env.agent.runtime.type", "subprocess", *options),
    ]


def variables(folder: Path) -> dict[str, str]:
    """Return the environment of the command, with the home `folder`."""
    kept = {name: ENVIRONMENT[name] for name in KEPT if name in ENVIRONMENT}
    # The harness installs its ACP client with uv.
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    own = {"HOME": str(folder), "UV_CACHE_DIR": str(CACHE / "uv"), "PYTHONPATH": str(PROGRAMS)}
    return {**kept, **own, "KEY": "no-key-is-needed-here"}
