"""Bundles of skills."""

import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from hermes.skills.history import SkillHistory
from hermes.skills.hub.contents import InvalidContent, combined_hash, file_hashes
from hermes.skills.hub.hub import Hub, HubOptions
from hermes.skills.hub.sharing import (
    MANIFEST,
    BundleManifest,
    PackedSkill,
    export_bundle,
    import_bundle,
    read_bundle,
)
from hermes.skills.parse import read_skill
from hermes.skills.skill import SkillRoot, Source

HEAD = b"---\nname: own\ndescription: What it does.\n---\n\nDo it.\n"


def packed(
    folder: str = "own", name: str = "own", **files: bytes
) -> tuple[PackedSkill, dict[str, bytes]]:
    held = {"SKILL.md": HEAD, **files}
    each = file_hashes(held)
    one = PackedSkill(name=name, kind="own", folder=folder, files=each, sha256=combined_hash(each))
    return one, {f"own/{folder}/{file}": data for file, data in held.items()}


def archive(one: PackedSkill, files: dict[str, bytes]) -> bytes:
    manifest = msgspec.json.encode(BundleManifest("2026-01-01T00:00:00+00:00", (one,)))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for name, data in {MANIFEST: manifest, **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_complete_bundle_is_read() -> None:
    one, files = packed()
    assert read_bundle(archive(one, files)) == [(one, {"SKILL.md": HEAD})]


@pytest.mark.parametrize(
    ("folder", "name"),
    [("../evil", "own"), ("/etc/own", "own"), (".hub/skills/own", "own"), ("a/b/c/own", "own"),
     ("own", "another")],
)  # fmt: skip
def test_places_where_no_skill_can_be(folder: str, name: str) -> None:
    one, files = packed(folder, name)
    with pytest.raises(InvalidContent):
        read_bundle(archive(one, files))


def test_a_changed_missing_or_added_file_is_noticed() -> None:
    one, files = packed(**{"a.md": b"a"})
    for broken in (
        {**files, "own/own/a.md": b"b"},
        {name: data for name, data in files.items() if not name.endswith("a.md")},
        {**files, "own/own/more.md": b""},
    ):
        with pytest.raises(InvalidContent):
            read_bundle(archive(one, broken))


@pytest.mark.parametrize("data", [b"", b"x", archive(packed()[0], {})[:-40]])
def test_invalid_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidContent):
        read_bundle(data)


async def test_own_skills_come_back_and_keep_that_they_are_copies(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    folder = old / "notes/own"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(HEAD)
    mark = b'{"name":"own","source":"bundled","hash":"x"}'
    (folder / ".overlay.json").write_bytes(mark)
    skill = read_skill(folder / "SKILL.md", SkillRoot(old, Source.USER))
    async with Hub(HubOptions(old / ".hub")) as hub:
        export_bundle(hub, old, [skill], tmp_path / "s.tar.gz")
    async with Hub(HubOptions(new / ".hub")) as hub:
        done = await import_bundle(hub, new, SkillHistory(new), tmp_path / "s.tar.gz")
        assert done.stored == ("own",)
        assert (new / "notes/own/.overlay.json").read_bytes() == mark
        again = await import_bundle(hub, new, SkillHistory(new), tmp_path / "s.tar.gz")
        assert again.skipped == ("own",)
