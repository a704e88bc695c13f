"""Disks and file systems."""

import re

from hermes.security.danger.rule import Rule, always, has_operands, operands, says, verb
from hermes.security.danger.scene import Scene
from hermes.security.danger.targets import touched, written
from hermes.security.shell.model import UNKNOWN, Invocation

DEVICE = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|r?disk|md\d|dm-|mapper/|loop|nbd|mem\b|kmem|port\b|sg\d|zvol"
    rf"|bcache|ram\d|{UNKNOWN}|[*?\[])|//\./physicaldrive|\\\\\.\\physicaldrive",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"/dev/(sd|hd|vd|nvme|mmcblk|r?disk|mem\b|kmem|port\b|xvd)|/proc/k(core|mem)\b")
_NOT_WRITING = frozenset({"chmod", "chown", "mkdir", "ls", "touch", "sqlite3"})
_NOT_READING = frozenset({
    "ls", "lsblk", "blkid", "stat", "test", "[", "file", "smartctl", "df", "echo", "printf", "grep",
    "udevadm", "findmnt", "chmod", "chown",
})  # fmt: skip


def formats_device(invocation: Invocation, _scene: Scene) -> bool:
    named = operands(invocation)
    return any(word.startswith("/dev/") or UNKNOWN in word for word in named)


def writes_device(invocation: Invocation, scene: Scene) -> bool:
    if invocation.name in _NOT_WRITING:
        return False
    near = invocation.folder.startswith("/dev")
    paths = [path for path in written(invocation) if near or "/dev/" in path or path[:1] in "\\/"]
    return any(
        DEVICE.match(path) or DEVICE.match(scene.written_as(path, invocation)) for path in paths
    )


def reads_device(invocation: Invocation, _scene: Scene) -> bool:
    """A whole disk or the memory as a file."""
    if invocation.name in _NOT_READING:
        return False
    return any(_WHOLE.match(path) for path in touched(invocation))


FORMATTERS = "mkfs mke2fs mkdosfs mkntfs mkswap newfs newfs_apfs newfs_hfs wipefs blkdiscard"
PARTITIONERS = "fdisk sfdisk sgdisk gdisk cfdisk parted cryptsetup gparted"
VOLUMES = """
    lvremove vgremove pvremove lvreduce lvresize pvcreate vgreduce mdadm zpool zfs btrfs tune2fs
    resize2fs debugfs badblocks e2fsck fsck xfs_repair ntfsfix flashrom efibootmgr grub-install
    fastboot
"""
WIPE = "disk wipe"
RULES = (
    Rule(WIPE, "formats a disk", FORMATTERS, formats_device, refused=True),
    Rule(WIPE, "writes directly to a disk", "", writes_device, refused=True),
    Rule(
        WIPE,
        "erases a disk",
        "diskutil",
        says(r"\b(erase|zero|secureErase|randomDisk)"),
        refused=True,
    ),
    Rule(WIPE, "erases a disk", "hdparm", says(r"--security-erase|--trim-sector"), refused=True),
    Rule(WIPE, "erases a disk", "nvme", verb("format sanitize write-zeroes"), refused=True),
    Rule(
        "format",
        "makes or changes file systems or partitions",
        f"{FORMATTERS} {PARTITIONERS}",
        has_operands,
    ),
    Rule(
        "format",
        "changes volumes",
        VOLUMES,
        verb(
            "destroy delete remove rollback create labelclear erase flash -w -y -f -z -U -L --stop",
            r"(^|\s)/dev/|--zero|^(-\S+\s+)*\w+/\w+",
        ),
    ),
    Rule(
        "format",
        "changes volumes",
        "diskutil",
        says(r"\b(partitionDisk|reformat|unmount|apfs delete)"),
    ),
    Rule("format", "formats a disk", "format", says(r"^[a-z]:")),
    Rule(
        "raw copy",
        "copies raw data with dd",
        "dd dcfldd ddrescue dc3dd gdd",
        says(r"\b(if|of)=|/dev/"),
    ),
    Rule("raw copy", "reads a whole disk or the memory", "", reads_device),
    Rule("mounts", "mounts or unmounts file systems", "umount swapoff losetup pivot_root", always),
    Rule(
        "mounts",
        "mounts or unmounts file systems",
        "mount",
        verb("-a -o -t --bind --rbind --move -B -M", r"(^|\s)/\S+\s+/|-o\S"),
    ),
)
