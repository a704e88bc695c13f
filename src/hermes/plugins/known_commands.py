"""Which subcommands plugins bring, as it was when they were last loaded: help texts run none."""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.util import atomic

log = logging.getLogger(__name__)

FILE = "plugin-commands.json"


def remember(folder: Path, held: Mapping[str, list[str]]) -> None:
    """Keeps the subcommands of each plugin that was loaded in `folder`, a cache. One that cannot
    be written holds nobody up."""
    if held == known_commands(folder):
        return
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        atomic.write_bytes(folder / FILE, msgspec.json.encode(held))
    except OSError as error:
        log.debug("the commands of plugins are not kept: %s", error)


def known_commands(folder: Path) -> Mapping[str, list[str]]:
    """What was remembered last."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
