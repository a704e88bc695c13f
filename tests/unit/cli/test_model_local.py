"""`hermes local`: what is on the shelf, and which model is used."""

import json
from pathlib import Path

import pytest

from hermes.cli.main import main


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


def test_the_list_shows_what_is_known_and_what_is_in_use(capsys):
    assert main(["local", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* 0.5b")
    assert "not fetched" in lines[0]
    assert lines[1].startswith("  1.5b")


def test_the_list_as_json(capsys, hermes_home: Path):
    (hermes_home / "models").mkdir(parents=True)
    (hermes_home / "models" / "mine.gguf").write_bytes(b"GGUF")
    assert main(["local", "list", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert models["0.5b"]["in_use"]
    assert models["mine.gguf"]["fetched"]


def test_a_file_of_ones_own_can_be_used(capsys, own_model: Path, hermes_home: Path):
    assert main(["local", "use", str(own_model)]) == 0
    assert str(own_model) in (hermes_home / "config.yaml").read_text()
    assert main(["local", "list"]) == 0
    assert f"* {own_model}" in capsys.readouterr().out


def test_going_back_to_a_known_model(own_model: Path, hermes_home: Path):
    main(["local", "use", str(own_model)])
    assert main(["local", "use", "1.5b"]) == 0
    assert "model: 1.5b" in (hermes_home / "config.yaml").read_text()


def test_fetched_weights_can_be_deleted(hermes_home: Path):
    models = hermes_home / "models"
    models.mkdir(parents=True)
    (models / "mine.gguf").write_bytes(b"GGUF")
    assert main(["local", "rm", "mine.gguf", "--yes"]) == 0
    assert list(models.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["use", "nonsense"], "there is no model 'nonsense'"),
        (["use", "/etc/passwd"], "is not a GGUF file"),
        (["pull", "http://127.0.0.1:9/page.html"], "does not name a .gguf file"),
        (["pull", "http://127.0.0.1:9/x.gguf#sha256=12"], "is not a checksum"),
        (["rm", "1.5b", "--yes"], "is not on this machine"),
    ],
)
def test_wrong_names_are_refused_in_one_line(capsys, arguments, words):
    assert main(["local", *arguments]) == 2
    complaint = capsys.readouterr().err.splitlines()
    assert words in complaint[0]
    assert len(complaint) <= 2
