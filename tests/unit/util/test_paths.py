"""Folders and what is in them, as they are written."""

import pytest

from hermes.util.files import inside, upwards


@pytest.mark.parametrize(
    ("folder", "way"),
    [
        ("/a/b", ("/a/b", "/a", "/")),
        ("/", ("/",)),
        ("a/b", ("a/b", "a", ".")),
        ("/a/", ("/a", "/")),
    ],
)
def test_the_way_up(folder: str, way: tuple[str, ...]) -> None:
    assert upwards(folder) == way


@pytest.mark.parametrize(("folder", "path"), [("/a", "/a/x"), ("/a/", "/a/x"), ("/", "/x")])
def test_something_in_a_folder(folder: str, path: str) -> None:
    assert inside(folder, "x") == path
