"""The pictures can be recorded anew, and show nothing of the machine they are from."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

REPO = Path(__file__).parents[2]
IMAGES = REPO / "docs" / "images"
TEXT = "{http://www.w3.org/2000/svg}text"


def shown(picture: str) -> str:
    rows: dict[str, list[str]] = {}
    for piece in ET.fromstring(picture).iter(TEXT):
        rows.setdefault(piece.attrib["y"], []).append(piece.text or "")
    return "\n".join(" ".join(row) for row in rows.values()).replace("\N{NO-BREAK SPACE}", " ")


def recorded(script: str, to: Path) -> list[Path]:
    """Record pictures and return them, with the committed pictures of the same names. Those that
    this machine cannot show may be missing."""
    command = [sys.executable, str(REPO / "scripts" / script), "--to", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    new = sorted(to.glob("*.svg"))
    skipped = re.findall(r"^skipped (\S+\.svg):", done.stdout, re.MULTILINE)
    prefix = script.removeprefix("record_").removesuffix(".py")
    assert sorted([*skipped, *(path.name for path in new)]) == sorted(
        path.name for path in IMAGES.glob(f"{prefix}*.svg")
    )
    return [*new, *(IMAGES / path.name for path in new)]


def test_a_new_recording_tells_the_same_story(tmp_path: Path, user_home: Path) -> None:
    for path in recorded("record_session.py", tmp_path):
        picture = shown(path.read_text("utf-8"))
        for told in ("2 checks passed", "rm -rf build dist", "[o] once", "~/shop (main)"):
            assert told in picture
        for private in (str(tmp_path), str(user_home), "/tmp/", "127.0.0.1"):
            assert private not in picture


def test_the_page_of_the_tour_lists_every_feature_with_its_steps() -> None:
    command = [sys.executable, str(REPO / "scripts" / "record_tour.py"), "--table"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (REPO / "docs" / "guide" / "tour.md").read_text("utf-8")
    assert table in page, "put the output of `scripts/record_tour.py --table` there"
    assert "|  |" not in table, "a feature without a step"
    for path in re.findall(r"`(tests/\S+)`", table):
        assert (REPO / path).is_file()
    for picture in IMAGES.glob("tour-*.svg"):
        assert f"../images/{picture.name}" in page


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_every_step_of_the_tour_works(tmp_path: Path, user_home: Path) -> None:
    for path in recorded("record_tour.py", tmp_path):
        picture = shown(path.read_text("utf-8"))
        for private in (str(tmp_path), str(user_home), "/tmp/"):
            assert private not in picture
