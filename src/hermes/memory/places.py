"""Whose notes are where.

    <folder>/MEMORY.md, USER.md                  of the owner
    <folder>/users/<name>/MEMORY.md, USER.md     of another user
    <folder>/projects/<name>/MEMORY.md           of a project, for whoever works on it
    <folder>/chats/<name>/MEMORY.md              of a chat, for everybody in it

A `<name>` is what is readable of an id and a hash of the whole id: two ids never share a folder,
and no id leads out of it. The file `OWNER` in a folder holds the id.
"""

import hashlib
import os.path
import re
from pathlib import Path
from typing import Literal

import msgspec

Target = Literal["memory", "user", "project", "chat"]

MEMORY_FILE = "MEMORY.md"
USER_FILE = "USER.md"
OWNER_FILE = "OWNER"

_UNSAFE = re.compile(r"[^a-z0-9_]+")
_READABLE = 40
_HASH = 12


class Scope(msgspec.Struct, frozen=True):
    """What a session's notes belong to."""

    user: str = ""
    """Empty: the owner."""
    chat: str = ""
    """Empty: no chat, as in a terminal."""
    project: str = ""
    """Absolute path of the project's root folder; empty: none."""


class Place(msgspec.Struct, frozen=True):
    file: Path
    owner: str = ""
    """What `OWNER` beside the file says; empty: there is none."""
    about: str = ""
    """What the notes are about, in few words: the name of a project, say."""


def places(folder: Path, scope: Scope) -> dict[Target, Place]:
    """The targets that exist in a scope, in the order they are shown."""
    own, owner = folder, ""
    if scope.user:
        own = folder / "users" / safe_name(scope.user)
        owner = f"user {scope.user}"
    found: dict[Target, Place] = {"memory": Place(own / MEMORY_FILE, owner)}
    if scope.project:
        path = os.path.normpath(scope.project)
        about = Path(path).name
        name = f"{_readable(about)}-{_hash(path)}"
        file = folder / "projects" / name / MEMORY_FILE
        found["project"] = Place(file, f"project {path}", about or path)
    if scope.chat:
        file = folder / "chats" / safe_name(scope.chat) / MEMORY_FILE
        found["chat"] = Place(file, f"chat {scope.chat}")
    found["user"] = Place(own / USER_FILE, owner)
    return found


def safe_name(name: str) -> str:
    """A file name for any id."""
    return f"{_readable(name)}-{_hash(name)}"


def _readable(name: str) -> str:
    return _UNSAFE.sub("-", name.lower()).strip("-")[:_READABLE].rstrip("-") or "x"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
