"""Finding a context engine by its name."""

import logging
import sys
from pathlib import Path

import pytest

from hermes.context.compressor import ContextCompressor
from hermes.context.discovery import find_engine, list_engines
from hermes.context.engine import ContextEngine, Dicts
from hermes.core.errors import ConfigError
from hermes.plugins.discovery import PluginInfo
from hermes_plugins.context.lcm import LcmEngine
from tests.cases import table_test

MANIFEST = "name: tiny\ndescription: Keeps the last messages.\nversion: 1.2.0\n"
ENGINE = """
from hermes.context.engine import ContextEngine

class Tiny(ContextEngine):
    {constructor}

    @property
    def name(self):
        return "{name}"

    def update_from_response(self, usage): ...

    def should_compress(self, prompt_tokens=None):
        return False

    def compress(self, messages, current_tokens=None):
        return messages[:1] + messages[-1:]
"""


class Registered(ContextEngine):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def update_from_response(self, usage: dict[str, int]) -> None: ...

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
        return messages


def engine_text(constructor: str = "pass", name: str = "tiny") -> str:
    return ENGINE.format(constructor=constructor, name=name)


def write(folder: Path, files: dict[str, str], name: str = "tiny") -> Path:
    """A plugin in `folder`; returns its folder."""
    place = folder / name
    place.mkdir(parents=True)
    for path, text in {"plugin.yaml": MANIFEST, **files}.items():
        (place / path).write_text(text)
    return place


def find(name: str, *folders: Path, registered: tuple[ContextEngine, ...] = ()) -> ContextEngine:
    return find_engine(name, folders, registered=registered, context_length=32_000)


def refusal(name: str, *folders: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        find(name, *folders)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.hint
    return text, caught.value.hint


def test_a_plugin_in_a_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"__init__.py": engine_text()})
    engine = find("tiny", tmp_path / "absent", tmp_path)
    assert engine.name == "tiny"
    assert engine.compress([{"role": "system"}, {}, {"role": "user"}]) == [
        {"role": "system"},
        {"role": "user"},
    ]


@table_test
def test_the_window_is_given_to_a_constructor_that_takes_it(tmp_path, constructor, length):
    write(tmp_path, {"__init__.py": engine_text(constructor)})
    assert find("tiny", tmp_path).context_length == length


def test_a_plugin_may_have_several_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "__init__.py": "from .engine import Tiny\n",
            "engine.py": f"from . import words\n{engine_text()}    says = words.HELLO\n",
            "words.py": "HELLO = 'hello'\n",
        },
    )
    assert find("tiny", tmp_path).says == "hello"  # type: ignore[attr-defined]


def test_two_plugins_of_one_name_do_not_mix(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write(tmp_path / folder, {"__init__.py": f"{engine_text()}    home = '{folder}'\n"})
    one, two = (find("tiny", tmp_path / folder) for folder in ("one", "two"))
    assert (one.home, two.home) == ("one", "two")  # type: ignore[attr-defined]
    first = find("tiny", tmp_path / "two", tmp_path / "one")
    assert type(first) is type(two)


def test_an_engine_built_on_another_counts_alone(tmp_path: Path) -> None:
    text = (
        "from hermes.context.engine import ContextEngine\n"
        "from hermes_plugins.context.lcm import LcmEngine\n"
        "class Mine(LcmEngine):\n    name = 'tiny'\n"
    )
    write(tmp_path, {"__init__.py": text})
    engine = find("tiny", tmp_path)
    assert isinstance(engine, LcmEngine)
    assert engine.context_length == 32_000


def test_all_chooses_between_several(tmp_path: Path) -> None:
    text = f"{engine_text()}\nclass Other(Tiny):\n    pass\n"
    write(tmp_path, {"__init__.py": f"{text}\n__all__ = ['Other']\n"})
    assert type(find("tiny", tmp_path)).__name__ == "Other"


def test_a_plugin_comes_before_a_registered_one_and_that_before_the_built_in(tmp_path):
    mine = Registered("lcm")
    assert isinstance(find("lcm", tmp_path), LcmEngine)
    assert find("lcm", tmp_path, registered=(Registered("x"), mine)) is mine
    write(tmp_path, {"__init__.py": engine_text(name="lcm")}, "lcm")
    assert type(find("lcm", tmp_path, registered=(mine,))).__name__ == "Tiny"


def test_unknown_name_falls_back_to_the_compressor_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"__init__.py": engine_text()})
    told: list[str] = []
    engine = find_engine("lmc", [tmp_path], context_length=32_000, tell=told.append)
    assert isinstance(engine, ContextCompressor) and engine.context_length == 32_000
    assert "\n".join(told) == (
        "context.engine: there is no context engine 'lmc', so the compressor is used; set it to"
        " one of: compressor, lcm, tiny"
    )


@pytest.mark.parametrize("name", ["", "..", "../tiny", "tiny/", "."])
def test_name_is_not_a_path(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"__init__.py": engine_text()})
    assert isinstance(find(name, tmp_path, tmp_path / "tiny"), ContextCompressor)


def test_name_that_no_folder_can_have_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file name too long"):
        find("x" * 300, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_this", "cannot be imported: ModuleNotFoundError: No module named"),
        ("def broken(:", "cannot be imported: SyntaxError: "),
        ("raise SystemExit('stop')", "cannot be imported: it wanted to end the program"),
        ("raise ValueError('two\\nlines')", "cannot be imported: ValueError: two lines"),
        ("", "defines no engine"),
        ("from hermes.context.engine import ContextEngine", "defines no engine"),
        (f"{engine_text()}\nclass Other(Tiny): pass\n", "defines 2 engines (Tiny, Other)"),
        (engine_text(name="huge"), "the engine is named 'huge', but its folder 'tiny'"),
        (engine_text("def __init__(self, size): pass"), "cannot make a Tiny: TypeError: "),
        (engine_text("def __init__(self): 1 / 0"), "cannot make a Tiny: ZeroDivisionError: "),
        (engine_text().replace("def compress", "def compact"), "Tiny does not define compress"),
    ],
)
def test_a_broken_plugin_is_one_clear_line(tmp_path, caplog, text, said):
    caplog.set_level(logging.DEBUG, "hermes.plugins.isolation")
    write(tmp_path, {"__init__.py": text})
    told, _ = refusal("tiny", tmp_path)
    assert told.startswith(f"{tmp_path}/tiny/__init__.py: {said}")
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert all(record.levelno == logging.DEBUG for record in tracebacks)
    assert bool(tracebacks) == ("cannot" in said)


def test_repaired_plugin_is_loaded(tmp_path: Path) -> None:
    place = write(tmp_path, {"__init__.py": "from . import part\nbroken", "part.py": ""})
    before = set(sys.modules)
    refusal("tiny", tmp_path)
    assert {name for name in set(sys.modules) - before if "context_engine" in name} == set()
    (place / "__init__.py").write_text(engine_text())
    assert find("tiny", tmp_path).name == "tiny"


def test_both_files_are_needed(tmp_path: Path) -> None:
    place = write(tmp_path, {})
    assert refusal("tiny", tmp_path)[0] == f"{place}/__init__.py: is missing"
    (place / "__init__.py").write_text(engine_text())
    (place / "plugin.yaml").unlink()
    assert refusal("tiny", tmp_path)[0] == f"{place}/plugin.yaml: is missing"
    (place / "plugin.yaml").write_text("name: [")
    assert f"{place}/plugin.yaml:" in refusal("tiny", tmp_path)[0]


def test_engines_are_listed_without_running_them(tmp_path: Path) -> None:
    write(tmp_path, {"__init__.py": "raise SystemExit"})
    write(tmp_path, {"__init__.py": "", "plugin.yaml": "- a\n- b\n"}, "wrong")
    (tmp_path / "notes.txt").write_text("no plugin")
    (tmp_path / "empty").mkdir()
    tiny, wrong, other, _compressor, lcm = list_engines([tmp_path], [Registered("other")])
    assert tiny == PluginInfo("tiny", "Keeps the last messages.", "1.2.0", f"{tmp_path}/tiny")
    assert (wrong.name, wrong.where) == ("wrong", f"{tmp_path}/wrong")
    assert "plugin.yaml" in wrong.problem
    assert other == PluginInfo("other", where="plugin")
    assert (lcm.name, lcm.where) == ("lcm", "built in")
    assert lcm.description.startswith("lossless")
