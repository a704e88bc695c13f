"""The .env file: what is read from it, and that changes keep the rest."""

import io
from pathlib import Path

import pytest
from dotenv import dotenv_values
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.config import environment as env
from hermes.config.environment import (
    bindings,
    parse_dotenv,
    read_dotenv,
    with_variable,
    without_variable,
)
from hermes.core.errors import ConfigError

LINES = (Path(__file__).parent / "fixtures" / "every_form.env").read_text()


def read(text: str) -> dict[str, str]:
    return env.dotenv_values(parse_dotenv(text), {})


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_parser_agrees_with_python_dotenv(ending: str) -> None:
    text = LINES.replace("\n", ending)
    expected = dotenv_values(stream=io.StringIO(text, newline=""), interpolate=False)
    assert read(text) == expected
    assert len(expected) == 20


def test_a_name_without_a_value_and_a_broken_line_are_passed_over() -> None:
    assert read('ALONE\nX="open\nY=1\n=5\n') == {"Y": "1"}


def test_a_reference_sees_earlier_lines_and_then_the_environment() -> None:
    pieces = parse_dotenv("A=1\nB=${A}-${HOME}-${NOPE}-$A\nC='${A}'\n")
    assert env.dotenv_values(pieces, {"HOME": "/h", "A": "9"})["B"] == "1-/h-${NOPE}-$A"
    assert env.dotenv_values(pieces, {})["C"] == "${A}"


def test_a_credential_with_something_unset_in_it_is_empty() -> None:
    text = "A_KEY=${NOPE}\nB_TOKEN=x-${NOPE}-${B}\nC_KEY='x-${NOPE}'\nD_KEY=${A}\n"
    text += "E=${NOPE}\nF=${E}\nG_KEY=${E}\n"
    found = bindings(parse_dotenv(text), {"A": "a"})
    assert {each.name: each.value for each in found} == {
        "A_KEY": "", "B_TOKEN": "", "C_KEY": "x-${NOPE}", "D_KEY": "a", "E": "${NOPE}",
        "F": "${NOPE}", "G_KEY": "",
    }  # fmt: skip
    assert {each.name: each.unset for each in found if each.unset} == {
        "A_KEY": ("NOPE",), "B_TOKEN": ("NOPE", "B"), "E": ("NOPE",), "F": ("NOPE",),
        "G_KEY": ("NOPE",),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "value"),
    [("\ufeffA=é".encode(), "é"), ("A=é".encode("latin-1"), "é"), (b"A=1\r\nB=2\r", "1")],
)
def test_other_encodings_are_read(tmp_path: Path, data: bytes, value: str) -> None:
    file = tmp_path / ".env"
    file.write_bytes(data)
    assert read_dotenv(file)["A"] == value


def test_a_missing_file_is_empty_and_a_folder_is_refused(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path / "none") == {}
    with pytest.raises(ConfigError, match="is a directory"):
        read_dotenv(tmp_path)


def test_setting_a_variable_keeps_everything_else() -> None:
    text = "# keys\nexport A='old'\n\nB=2 # two\nA=older"
    assert with_variable(text, "A", "new") == "# keys\n\nB=2 # two\nA=new\n"
    assert with_variable("A=1", "B", "2") == "A=1\nB=2\n"
    assert with_variable("A=1\r\n", "B", "2") == "A=1\r\nB=2\r\n"
    assert with_variable("export A=1\n", "A", "2") == "export A=2\n"
    assert without_variable(text, "A") == "# keys\n\nB=2 # two\n"
    assert without_variable(text, "Z") == text


@example("${x}")
@example("it's ${x}")
@example("\\${x}")
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\x00")))
def test_any_value_is_read_back_as_it_was_set(value: str) -> None:
    text = with_variable("# c\nA=1\n", "KEY", value)
    assert env.dotenv_values(parse_dotenv(text), {"x": "expanded"}) == {"A": "1", "KEY": value}
    assert dotenv_values(stream=io.StringIO(text), interpolate=False)["KEY"] == value


@given(st.text(max_size=200))
def test_parsing_any_text_loses_nothing(text: str) -> None:
    assert "".join(piece.text for piece in parse_dotenv(text)) == text
