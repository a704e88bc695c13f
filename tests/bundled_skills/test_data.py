"""The scripts of the skills for data, with good and bad input."""

import csv
import json
import sqlite3
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bundled_skills.conftest import Run
from tests.cases import cases

CASES = cases(__file__)

SVG = "{http://www.w3.org/2000/svg}"


# data-analysis-csv


def profile(run: Run, file: Path, content: bytes) -> dict[str, dict[str, object]]:
    file.write_bytes(content)
    done = run("data-analysis-csv/profile_csv.py", file, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    return {"": found, **{column["name"]: column for column in found["columns"]}}


def test_each_column_gets_its_type(run: Run, tmp_path: Path) -> None:
    text = "n,x,zip,day,ok,who\n1,1.5,01234,2024-05-01,yes,ann\n2,NA,09876,2024-06-01,no,Bob\n"
    columns = profile(run, tmp_path / "a.csv", text.encode())
    kinds = [columns[name]["type"] for name in ("n", "x", "zip", "day", "ok", "who")]
    assert kinds == ["integer", "decimal", "code", "date", "boolean", "text"]
    assert columns["x"]["missing"] == 1
    assert (columns["n"]["sum"], columns["n"]["median"]) == (3.0, 1.5)
    assert (columns["day"]["from"], columns["day"]["to"]) == ("2024-05-01", "2024-06-01")


def test_a_column_with_a_bad_number_says_how_many_are_numbers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price,note\n1.5,ok\n2.5,7\nabout 3,late\n")
    lines = run("data-analysis-csv/profile_csv.py", "a.csv").stdout.splitlines()
    assert lines[0] == "a.csv: 3 rows, 2 columns, encoding utf-8, delimiter ,"
    assert "- price (mixed): missing 0, distinct 3, mixed (2 decimal, 1 text), min 1.5" in lines[1]
    assert (
        "- note (text): missing 0, distinct 3, mixed (2 text, 1 integer), unique True" in lines[2]
    )


def test_european_files_are_read_without_options(run: Run, tmp_path: Path) -> None:
    text = 'Stadt;Betrag\nKöln;"1,5"\nMünchen;2,25\n'
    columns = profile(run, tmp_path / "a.csv", text.encode("cp1252"))
    assert (columns[""]["encoding"], columns[""]["delimiter"]) == ("cp1252", ";")
    assert (columns["Betrag"]["type"], columns["Betrag"]["sum"]) == ("decimal comma", 3.75)


def test_a_byte_order_mark_does_not_stick_to_the_first_name(run: Run, tmp_path: Path) -> None:
    assert "id" in profile(run, tmp_path / "a.csv", b"\xef\xbb\xbfid\tn\n1\t2\n")


def test_broken_and_duplicate_rows_are_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,2\n1,2,3\n")
    done = run("data-analysis-csv/profile_csv.py", "a.csv")
    assert done.returncode == 1
    assert "!! 1 rows with another number of fields, first at row 4" in done.stdout
    assert "!! 1 duplicate rows" in done.stdout


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", "is empty"), (b"PK\x03\x04rest", "Excel"), (b"a,b\n\x00\x01", "binary")],
)
def test_files_that_are_not_csv_are_refused(run, tmp_path, content, text):
    (tmp_path / "a.csv").write_bytes(content)
    done = run("data-analysis-csv/profile_csv.py", "a.csv")
    assert done.returncode == 2
    assert text in done.stderr


# sqlite


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "a b?.db"
    connection = sqlite3.connect(file)
    connection.executescript(
        "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT NOT NULL, photo BLOB);"
        "CREATE INDEX by_name ON people(name);"
        "CREATE TABLE pets(owner INTEGER REFERENCES people(id));"
        "INSERT INTO people VALUES (1, 'Ann', x'0102'), (2, 'Bob', NULL);"
    )
    connection.close()
    return file


def test_the_overview_shows_tables_columns_and_indexes(run: Run, database: Path) -> None:
    out = run("sqlite/query.py", database).stdout
    assert "table people: 2 rows" in out
    assert "name: TEXT NOT NULL" in out
    assert "index by_name (name)" in out
    assert "owner -> people(id)" in out


@pytest.mark.parametrize(("form", "expected"), CASES["a query takes values and prints three forms"])
def test_a_query_takes_values_and_prints_three_forms(run, database, form, expected):
    sql = "SELECT name, photo FROM people WHERE name = ?"
    assert (
        run("sqlite/query.py", database, sql, "--param", "Ann", "--format", form).stdout == expected
    )


def test_changes_need_the_option_write(run: Run, database: Path) -> None:
    sql = "DELETE FROM people WHERE id = 2"
    refused = run("sqlite/query.py", database, sql)
    assert refused.returncode == 2
    assert "--write" in refused.stderr
    assert run("sqlite/query.py", database, sql, "--write").stdout == "1 row(s) changed\n"
    assert (
        run("sqlite/query.py", database, "SELECT count(*) AS n FROM people").stdout == "n\n-\n1\n"
    )


def test_the_check_finds_rows_that_refer_to_nothing(run: Run, database: Path) -> None:
    assert run("sqlite/query.py", database, "--check").stdout == "ok\n"
    run("sqlite/query.py", database, "INSERT INTO pets VALUES (99)", "--write")
    done = run("sqlite/query.py", database, "--check")
    assert (done.returncode, done.stdout) == (1, "pets row 1 refers to a missing row of people\n")


@pytest.mark.parametrize(("name", "sql", "text"), CASES["unusable input of the query"])
def test_unusable_input_of_the_query(run, database, name, sql, text):
    (database.parent / "text.db").write_text("just some text")
    done = run("sqlite/query.py", name, sql)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (database.parent / "none.db").exists()


# plotting


def chart(run: Run, folder: Path, content: str, *arguments: object) -> ET.Element:
    (folder / "data.csv").write_text(content)
    done = run("plotting/svg_chart.py", "data.csv", *arguments)
    assert done.returncode == 0, done.stderr
    return ET.parse(folder / "chart.svg").getroot()


def numbers(elements: list[ET.Element], name: str) -> list[float]:
    return [float(element.attrib[name]) for element in elements]


def test_dates_are_placed_by_time_not_by_row(run: Run, tmp_path: Path) -> None:
    svg = chart(
        run, tmp_path, "d,n\n2024-01-01,1\n2024-01-02,2\n2024-01-05,3\n", "--x", "d", "--y", "n"
    )
    first, second, third = numbers(svg.findall(f"{SVG}circle"), "cx")
    assert round((third - second) / (second - first)) == 3
    labels = [text.text for text in svg.findall(f"{SVG}text")]
    assert "2024-01-03" in labels


def test_bars_start_at_zero_and_are_as_long_as_their_numbers(run: Run, tmp_path: Path) -> None:
    svg = chart(run, tmp_path, "k,n\na & b,10\nc,40\n", "--kind", "bar", "--x", "k", "--y", "n")
    small, large = numbers(svg.findall(f"{SVG}rect")[1:], "height")
    assert round(large / small, 1) == 4.0
    assert "a & b" in [text.text for text in svg.findall(f"{SVG}text")]


def test_a_histogram_counts_every_value(run: Run, tmp_path: Path) -> None:
    content = "n\n" + "\n".join(["1"] * 3 + ["5"] + ["10"] * 2 + ["x"]) + "\n"
    (tmp_path / "data.csv").write_text(content)
    done = run("plotting/svg_chart.py", "data.csv", "--kind", "hist", "--y", "n", "--bins", 3)
    assert done.stdout == "chart.svg: 3 points, 1 values without a number left out\n"


@pytest.mark.parametrize(("content", "arguments", "text"), CASES["data that cannot be drawn"])
def test_data_that_cannot_be_drawn_is_an_error(run, tmp_path, content, arguments, text):
    (tmp_path / "data.csv").write_text(content)
    done = run("plotting/svg_chart.py", "data.csv", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "chart.svg").exists()


# json-and-apis


def test_the_shape_of_json_names_paths_types_and_examples(run: Run) -> None:
    document = {"items": [{"id": 1, "the-name": "Tea"}, {"id": None}], "next": None}
    out = run("json-and-apis/json_shape.py", "-", stdin=json.dumps(document)).stdout.splitlines()
    assert out == [
        ".  object  x1",
        ".items  array  x1  length 2..2",
        ".items[]  object  x2",
        ".items[].id  integer|null  x2  null x1  e.g. 1",
        '.items[]["the-name"]  string  x1  e.g. "Tea"',
        ".next  null  x1  null x1",
    ]


def test_json_lines_and_tables_of_ids_stay_short(run: Run) -> None:
    table = {f"id{n}": {"n": n} for n in range(100)}
    out = run("json-and-apis/json_shape.py", "-", stdin=json.dumps(table) + "\n[1]\n").stdout
    assert out.startswith("2 JSON lines\n")
    assert ".{key}.n  integer  x100" in out


@pytest.mark.parametrize(("text", "expected"), CASES["invalid json is explained"])
def test_invalid_json_is_explained(run: Run, text: str, expected: str) -> None:
    done = run("json-and-apis/json_shape.py", "-", stdin=text)
    assert done.returncode == 2
    assert expected in done.stderr


# spreadsheets-xlsx


def test_a_workbook_that_was_written_reads_back_the_same(run: Run, tmp_path: Path) -> None:
    rows = [
        ["name", "amount", "day", "when", "code", "long"],
        ["Ann & <Bob>", "-3.5", "2024-05-01", "2024-05-01 10:30:00", "007", "12345678901234567890"],
        ["two\nlines", "", "2024-02-30", "", "=1+1", "x"],
    ]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert run("spreadsheets-xlsx/csv_to_xlsx.py", "Ünï/1=a.csv", "--out", "a.xlsx").returncode == 0
    assert (
        "1. Ünï_1: 3 rows, 6 columns"
        in run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx", "--list").stdout
    )
    assert run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx", "--out", "b.csv").returncode == 0
    with (tmp_path / "b.csv").open(newline="") as file:
        assert list(csv.reader(file)) == rows


def test_numbers_and_dates_are_real_numbers_and_text_is_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("h,h,h,h\n1.5,2024-05-01,007,=SUM(A2:A2)\n")
    run("spreadsheets-xlsx/csv_to_xlsx.py", "a.csv", "--out", "a.xlsx", "--formulas")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert '<c r="A2"><v>1.5</v></c>' in sheet
    assert '<c r="B2" s="2"><v>45413.0</v></c>' in sheet
    assert '<c r="C2" s="0" t="inlineStr">' in sheet
    assert '<c r="D2"><f>SUM(A2:A2)</f></c>' in sheet


def test_a_foreign_workbook_with_shared_strings_gaps_and_own_date_formats(run, tmp_path):
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as book:
        book.writestr(
            "xl/workbook.xml",
            f'<workbook {main} xmlns:r="{office}"><workbookPr date1904="1"/><sheets>'
            '<sheet name="Secret" state="hidden" r:id="r2"/><sheet name="Data" r:id="r1"/></sheets>'
            "</workbook>",
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            '<Relationship Id="r1" Target="/xl/worksheets/data.xml"/>'
            '<Relationship Id="r2" Target="worksheets/secret.xml"/></Relationships>',
        )
        book.writestr(
            "xl/sharedStrings.xml",
            f"<sst {main}><si><r><t>rich </t></r><r><t>text</t></r></si></sst>",
        )
        book.writestr(
            "xl/styles.xml",
            f'<styleSheet {main}><numFmts><numFmt numFmtId="170" formatCode="dd/mm/yy"/>'
            '<numFmt numFmtId="171" formatCode="0.0 &quot;days&quot;"/></numFmts>'
            '<cellXfs><xf numFmtId="0"/><xf numFmtId="170"/><xf numFmtId="171"/></cellXfs>'
            "</styleSheet>",
        )
        book.writestr(
            "xl/worksheets/data.xml",
            f'<worksheet {main}><sheetData><row r="2"><c r="B2" t="s"><v>0</v></c>'
            '<c r="AA2" s="1"><v>0</v></c></row><row r="3"><c r="A3" t="b"><v>1</v></c>'
            '<c r="B3" t="e"><v>#N/A</v></c><c r="C3" s="1"><v>43951</v></c>'
            '<c r="D3" s="2"><v>2.5</v></c></row></sheetData></worksheet>',
        )
        book.writestr("xl/worksheets/secret.xml", f"<worksheet {main}><sheetData/></worksheet>")
    done = run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx")
    empty, second, third = csv.reader(done.stdout.splitlines())
    assert not any(empty)
    assert (second[1], second[26]) == ("rich text", "00:00:00")
    assert third[:4] == ["TRUE", "#N/A", "2024-05-01", "2.5"]
    assert (
        "Secret (hidden): 0 rows"
        in run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx", "--list").stdout
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a,b\n", "no .xlsx file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old .xls or an encrypted file"),
    ],
)
def test_files_that_are_not_workbooks_are_refused(run, tmp_path, content, text):
    (tmp_path / "a.xlsx").write_bytes(content)
    done = run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx")
    assert done.returncode == 2
    assert text in done.stderr


def test_a_workbook_that_declares_entities_is_refused(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", '<!DOCTYPE x [<!ENTITY a "b">]><workbook/>')
    assert "declares entities" in run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx").stderr


def test_a_missing_sheet_and_an_existing_target_are_errors(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("h\n1\n")
    run("spreadsheets-xlsx/csv_to_xlsx.py", "a.csv", "--out", "a.xlsx")
    missing = run("spreadsheets-xlsx/xlsx_to_csv.py", "a.xlsx", "--sheet", "Nix")
    assert (missing.returncode, missing.stderr) == (
        2,
        "error: there is no sheet 'Nix'; there are: a\n",
    )
    again = run("spreadsheets-xlsx/csv_to_xlsx.py", "a.csv", "--out", "a.xlsx")
    assert again.returncode == 2
    assert "--force" in again.stderr
    twice = run("spreadsheets-xlsx/csv_to_xlsx.py", "a.csv", "A=a.csv", "--out", "b.xlsx")
    assert "same name" in twice.stderr
