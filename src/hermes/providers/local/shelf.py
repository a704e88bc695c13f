"""The models on this machine: fetched ones, and files of the user's own."""

import re
from pathlib import Path

import msgspec

from hermes.core.errors import UsageError
from hermes.providers.local.catalogue import CATALOGUE, MAGIC, Weights, find

SUFFIX = ".gguf"


class ShelfModel(msgspec.Struct, frozen=True):
    name: str
    """What `hermes local use` takes."""
    label: str
    path: Path
    size: int
    fetched: bool


def on_shelf(folder: Path) -> list[ShelfModel]:
    """The catalogue, then other GGUF files in `folder`."""
    known = {weights.file for weights in CATALOGUE}
    models = [
        ShelfModel(w.id, w.label, folder / w.file, w.size, (folder / w.file).is_file())
        for w in CATALOGUE
    ]
    others = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    models += [
        ShelfModel(path.name, path.stem, path, path.stat().st_size, fetched=True)
        for path in others
        if path.name not in known and path.exists()
    ]
    return models


def weights_for(name: str, folder: Path) -> Weights:
    """What `name` means: an id, a file in `folder`, a path or an address of a GGUF file.

    Raises `UsageError` when it means nothing.
    """
    if (known := find(name)) is not None:
        return known
    if name.startswith(("http://", "https://")):
        return _from_url(name)
    for path in (Path(name).expanduser(), folder / name, folder / f"{name}{SUFFIX}"):
        if path.is_file():
            return _from_file(path.absolute())
    ids = ", ".join(weights.id for weights in CATALOGUE)
    raise UsageError(
        f"there is no model {name!r}",
        hint=f"known: {ids}; or give the path or address of a GGUF file",
    )


def _from_url(url: str) -> Weights:
    address, _, fragment = url.partition("#")
    file = address.rsplit("/", 1)[-1].partition("?")[0]
    if not file.endswith(SUFFIX):
        raise UsageError(f"{address} does not name a {SUFFIX} file")
    digest = fragment.removeprefix("sha256=").lower()
    if fragment and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UsageError(
            f"#{fragment} is not a checksum", hint=f"{address}#sha256=<64 hexadecimal digits>"
        )
    return Weights(id=file, label=file, file=file, size=0, sha256=digest, url=address)


def _from_file(path: Path) -> Weights:
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if magic != MAGIC:
        raise UsageError(f"{path} is not a GGUF file")
    # An absolute file name stays where it is: `folder / file` is the file itself.
    return Weights(
        id=path.name, label=path.stem, file=str(path), size=path.stat().st_size, sha256="", url=""
    )
