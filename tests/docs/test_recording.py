"""The picture of the README can be recorded anew, and shows nothing of the machine it is from."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

REPO = Path(__file__).parents[2]
PICTURE = REPO / "docs" / "images" / "session.svg"
TEXT = "{http://www.w3.org/2000/svg}text"


def shown(picture: str) -> str:
    rows: dict[str, list[str]] = {}
    for piece in ET.fromstring(picture).iter(TEXT):
        rows.setdefault(piece.attrib["y"], []).append(piece.text or "")
    return "\n".join(" ".join(row) for row in rows.values()).replace("\N{NO-BREAK SPACE}", " ")


def test_a_new_recording_tells_the_same_story(tmp_path: Path, user_home: Path) -> None:
    command = [sys.executable, str(REPO / "scripts" / "record_session.py"), "--to"]
    new = tmp_path / "new.svg"
    done = subprocess.run([*command, str(new)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for picture in (shown(new.read_text("utf-8")), shown(PICTURE.read_text("utf-8"))):
        for told in ("gives 49.9, not 45", "2 checks passed", "rm -rf build dist", "[o] once"):
            assert told in picture
        for private in (str(tmp_path), str(user_home), "/tmp/", "127.0.0.1"):
            assert private not in picture
