"""The pictures can be recorded anew, and show nothing of the machine they are from."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

REPO = Path(__file__).parents[2]
IMAGES = REPO / "docs" / "images"
TEXT = "{http://www.w3.org/2000/svg}text"


def shown(picture: str) -> str:
    rows: dict[str, list[str]] = {}
    for piece in ET.fromstring(picture).iter(TEXT):
        rows.setdefault(piece.attrib["y"], []).append(piece.text or "")
    return "\n".join(" ".join(row) for row in rows.values()).replace("\N{NO-BREAK SPACE}", " ")


def recorded(script: str, to: Path) -> list[Path]:
    """Record pictures and return them, with the committed pictures of the same names."""
    command = [sys.executable, str(REPO / "scripts" / script), "--to", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    new = sorted(to.glob("*.svg"))
    prefix = script.removeprefix("record_").removesuffix(".py")
    assert [path.name for path in new] == sorted(p.name for p in IMAGES.glob(f"{prefix}*.svg"))
    return [*new, *(IMAGES / path.name for path in new)]


def test_a_new_recording_tells_the_same_story(tmp_path: Path, user_home: Path) -> None:
    for path in recorded("record_session.py", tmp_path):
        picture = shown(path.read_text("utf-8"))
        for told in ("2 checks passed", "rm -rf build dist", "[o] once", "~/shop (main)"):
            assert told in picture
        for private in (str(tmp_path), str(user_home), "/tmp/", "127.0.0.1"):
            assert private not in picture


def test_every_step_of_the_tour_works(tmp_path: Path, user_home: Path) -> None:
    for path in recorded("record_tour.py", tmp_path):
        picture = shown(path.read_text("utf-8"))
        for private in (str(tmp_path), str(user_home), "/tmp/"):
            assert private not in picture
