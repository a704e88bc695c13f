"""The measured programs, each run from outside as a user runs it."""

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("PATH", "LANG", "TERM", "TMPDIR")


class Contender(NamedTuple):
    name: str
    command: str

    def environment(self, home: Path) -> dict[str, str]:
        """Return the variables of a user with an empty home and no keys."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return kept | {"HOME": str(home), "HERMES_HOME": str(home / ".hermes")}

    def point_at(self, url: str, home: Path) -> None:
        """Write settings that send every request to the model server at `url`."""
        folder = home / ".hermes"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(
            "model:\n"
            "  default: lab-model\n"
            "  provider: custom\n"
            f"  base_url: {url}/v1\n"
            "  api_key: no-key-is-needed-here\n"
        )


def ours() -> Contender:
    return Contender("hermes", str(ROOT / "hermes"))


def peer(venv: Path) -> Contender:
    """Return the published hermes-agent package, installed in `venv`."""
    command = venv / "bin" / "hermes"
    if not command.exists():
        raise SystemExit(f"{command} does not exist; install hermes-agent into {venv} first")
    return Contender("hermes-agent", str(command))
