"""A home with files in it."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import rmtree

import pytest

from hermes.config.home import Home, _in_force

Write = Callable[..., Home]


@pytest.fixture(autouse=True)
def no_home_in_force() -> None:
    """Tests that ran a whole command earlier leave its home behind."""
    _in_force.clear()


@pytest.fixture
def home(hermes_home: Path) -> Home:
    hermes_home.mkdir(mode=0o700)
    return Home(hermes_home)


@pytest.fixture
def write(home: Home) -> Write:
    """Put text into config.yaml and .env."""

    def put(config: str | None = None, env: str | None = None) -> Home:
        if config is not None:
            home.config_file.write_text(config, encoding="utf-8")
        if env is not None:
            home.env_file.write_text(env, encoding="utf-8")
        return home

    return put


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user may enter, unlike those pytest makes."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    rmtree(folder)


@pytest.fixture
def as_ordinary_user() -> Callable[[], AbstractContextManager[None]]:
    """Root may read everything, so permissions are tested as another user."""

    @contextmanager
    def drop() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return drop
