"""The log files: how large they are and what went wrong lately."""

import time

from hermes.app.doctor.findings import Found, fine, warning
from hermes.app.doctor.scene import Scene
from hermes.app.log_reader import Wanted, files_of, last_entries
from hermes.app.logs import ERRORS, FILES
from hermes.util.text import human_size, many

DAY = 24 * 3600
MOST = 10_000
"""Errors that are counted."""
SHOWN = 100


def logs(scene: Scene) -> Found:
    folder = scene.home.logs
    files = [file for name in FILES for file in files_of(folder / name)]
    size = sum(file.stat().st_size for file in files)
    limits = scene.settings.logging
    allowed = 2 * len(FILES) * (limits.backups + 1) * limits.max_bytes
    found: Found = []
    if limits.max_bytes and size > max(allowed, limits.max_bytes):
        text = f"the log files take {human_size(size)}, more than the settings allow"
        found.append(warning(text, f"delete old files in {folder}"))
    since = Wanted(level="ERROR", since=time.time() - DAY)
    errors = last_entries(folder / ERRORS, MOST, since)
    if errors:
        last = " ".join(errors[-1].message.split())[:SHOWN]
        text = f"{many(len(errors), 'error')} in the last 24 hours, the last: {last}"
        found.append(warning(text, "hermes logs errors --since 1d"))
    return found or [fine(f"{human_size(size)}, no errors in the last 24 hours")]
