"""What is installed."""

import importlib
import sys

from hermes.util.extras import is_installed


def test_a_library_that_comes_later_is_found_and_none_is_imported(tmp_path, monkeypatch) -> None:
    name = f"comes_later_{tmp_path.name.replace('-', '_')}"
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed(name)
    (tmp_path / f"{name}.py").write_text("")
    importlib.invalidate_caches()
    assert is_installed(name)
    assert name not in sys.modules
    monkeypatch.setitem(sys.modules, name, None)
    assert not is_installed(name)
