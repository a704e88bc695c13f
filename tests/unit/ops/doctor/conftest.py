import pytest

from hermes.config.home import Home


@pytest.fixture
def home(hermes_home) -> Home:
    hermes_home.mkdir(mode=0o700)
    return Home(hermes_home)


@pytest.fixture
def config(home):
    """Writes config.yaml."""

    def write(text: str) -> None:
        home.config_file.write_text(text)

    return write
