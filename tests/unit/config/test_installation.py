"""Packages of optional abilities are installed on their first use."""

import pytest

from hermes.config.installation import InstallFailed, ensure_extra


class Installer:
    """Counts installations; fails while `error` is set."""

    def __init__(self, error: str = "") -> None:
        self.error, self.installed = error, list[str]()
        self.reports = list[str]()

    async def __call__(self, name: str) -> None:
        self.installed.append(name)
        if self.error:
            raise InstallFailed(self.error, hint="hermes setup web")


async def test_an_installed_package_needs_no_installation() -> None:
    install = Installer()
    await ensure_extra("web", "msgspec", install.reports.append, install)
    assert (install.installed, install.reports) == ([], [])


async def test_a_missing_package_is_installed_with_one_line_of_progress() -> None:
    install = Installer()
    await ensure_extra("web", "no_such_package", install.reports.append, install)
    assert install.installed == ["web"]
    assert install.reports == [
        "installing the packages for web search without a key, readable pages, PDFs (once) …\n"
    ]


async def test_a_failed_installation_is_not_repeated_at_every_use() -> None:
    install = Installer("matrix could not be installed: no network")
    for _ in range(3):
        with pytest.raises(InstallFailed, match="no network"):
            await ensure_extra("matrix", "no_such_package", install.reports.append, install)
    assert install.installed == ["matrix"]
