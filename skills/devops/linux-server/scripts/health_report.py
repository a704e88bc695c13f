"""One read-only look at the health of this Linux machine.

Shows load, memory, swap, disks and inodes, time since boot, listening TCP ports, failed systemd
units and zombie processes, from /proc and /sys alone (plus systemctl when it is there). A line
that crosses a limit starts with "!!".
Exit code: 0 all well, 1 something crossed a limit, 2 this is no Linux.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too

REAL = {
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "f2fs",
    "vfat",
    "overlay",
    "nfs",
    "nfs4",
    "cifs",
}
LISTEN = "0A"
GIB = 1024**3


class Line(NamedTuple):
    what: str
    value: str
    bad: bool = False


class Limits(NamedTuple):
    disk: int
    memory: int
    load: float


def load(limits: Limits) -> Iterator[Line]:
    cores = os.cpu_count() or 1
    values = os.getloadavg()
    shown = ", ".join(f"{value:.2f}" for value in values)
    yield Line("load", f"{shown} on {cores} core(s)", values[1] > limits.load * cores)


def uptime(_: Limits) -> Iterator[Line]:
    seconds = int(float(Path("/proc/uptime").read_text().split()[0]))
    yield Line("up", f"{seconds // 86400} d {seconds % 86400 // 3600} h")


def memory(limits: Limits) -> Iterator[Line]:
    rows = (row.split(":") for row in Path("/proc/meminfo").read_text().splitlines())
    sizes = {name: int(value.split()[0]) * 1024 for name, value in rows}
    total = sizes["MemTotal"]
    used = 100 * (total - sizes.get("MemAvailable", sizes["MemFree"])) // total
    yield Line("memory", f"{used} % of {total / GIB:.1f} GiB used", used >= limits.memory)
    swap = sizes.get("SwapTotal", 0)
    if swap:
        used = 100 * (swap - sizes["SwapFree"]) // swap
        yield Line("swap", f"{used} % of {swap / GIB:.1f} GiB used", used >= limits.memory)


def disks(limits: Limits) -> Iterator[Line]:
    seen = set()
    for row in Path("/proc/mounts").read_text().splitlines():
        device, mount, kind = row.split()[:3]
        mount = mount.replace("\\040", " ")
        if kind not in REAL or device in seen or not Path(mount).is_dir():
            continue
        seen.add(device)
        try:
            found = os.statvfs(mount)
        except OSError as error:
            yield Line(f"disk {mount}", error.strerror or "cannot be read", True)
            continue
        if not found.f_blocks:
            continue
        used = 100 * (found.f_blocks - found.f_bfree) // found.f_blocks
        free = found.f_bavail * found.f_frsize / GIB
        yield Line(f"disk {mount}", f"{used} % used, {free:.1f} GiB free", used >= limits.disk)
        if found.f_files:
            inodes = 100 * (found.f_files - found.f_ffree) // found.f_files
            if inodes >= limits.disk:
                yield Line(f"inodes {mount}", f"{inodes} % used", True)


def ports(_: Limits) -> Iterator[Line]:
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        table = Path("/proc/net", name)
        for row in table.read_text().splitlines()[1:] if table.exists() else []:
            fields = row.split()
            address, port = fields[1].split(":")
            if fields[3] == LISTEN:
                found.setdefault(int(port, 16), set()).add(reach(address))
    for number, where in sorted(found.items()):
        shown = "open to the network" if "any" in where else ", ".join(sorted(where))
        yield Line(f"port {number}", shown)


def reach(address: str) -> str:
    """Who can connect to a listening address of /proc/net/tcp."""
    if not address.strip("0"):
        return "any"
    loopback = address.endswith("7F") if len(address) == 8 else address.endswith("01000000")
    return "this machine only" if loopback else "one address"


def units(_: Limits) -> Iterator[Line]:
    if not shutil.which("systemctl") or not Path("/run/systemd/system").is_dir():
        yield Line("systemd", "not running here")
        return
    command = ["systemctl", "--failed", "--plain", "--no-legend", "--no-pager"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=20)
    except subprocess.TimeoutExpired:
        yield Line("systemd", "does not answer", True)
        return
    failed = [row.split()[0] for row in done.stdout.splitlines() if row.strip()]
    yield Line("failed units", ", ".join(failed) or "none", bool(failed))


def zombies(_: Limits) -> Iterator[Line]:
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            count += stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue  # it has ended meanwhile
    yield Line("zombies", str(count), count > 20)


PARTS = (uptime, load, memory, disks, units, zombies, ports)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disk", type=int, default=90, help="percent used that is too much")
    parser.add_argument("--memory", type=int, default=90, help="percent used that is too much")
    parser.add_argument("--load", type=float, default=2.0, help="load per core that is too much")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if not Path("/proc/meminfo").exists():
        print("error: no /proc here; this report is for Linux", file=sys.stderr)
        return 2
    limits = Limits(options.disk, options.memory, options.load)
    lines = [line for part in PARTS for line in part(limits)]
    if options.json:
        print(json.dumps([line._asdict() for line in lines], indent=2))
    else:
        for line in lines:
            print(f"{'!!' if line.bad else '  '} {line.what}: {line.value}")
    return 1 if any(line.bad for line in lines) else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
