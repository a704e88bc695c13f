"""What every test gets: a clean environment, a home of its own, and no network.

- The environment is reduced to the few variables of `KEPT`; `HOME` and `HERMES_HOME` are empty
  temporary folders (fixtures `user_home` and `hermes_home`). No provider key survives.
- Sockets may reach this machine only, except in tests marked `internet`. Tests in `tests/unit`
  start no programs, except those that `tests/rings.toml` lists. An attempt is refused where it
  happens and fails the test even when the code under test swallows the refusal.
- `--no-skips` turns a skipped or expected-to-fail test into a failed run.
"""

import gc
import ipaddress
import itertools
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ("tests.rings", "tests.workspace")

KEPT = frozenset({"PATH", "LANG", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"})
"""Variables that pass into every test."""

KEPT_PREFIXES = ("LC_", "PYTEST_", "COVERAGE_", "HERMES_TEST_")
"""Prefixes of variables that pass into every test."""

KEPT_PREFIXES_ONLINE = ("PIP_", "UV_", "SSL_", "REQUESTS_CA_", "HTTP_", "HTTPS_", "NO_", "HF_")
"""Prefixes that pass into tests marked `internet` as well (any letter case)."""

LOCAL_FAMILIES = frozenset(
    getattr(socket, name) for name in ("AF_UNIX", "AF_NETLINK") if hasattr(socket, name)
)
PROCESS_EVENTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
)
GUARDED_EVENTS = PROCESS_EVENTS | {
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "socket.sendmsg",
}


# Collection makes a million objects that live as long as the run: looking through them again and
# again, during collection and later, is a third of its time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


settings.register_profile("here", max_examples=40, deadline=None)
settings.load_profile("here")

# A shell starts background jobs with SIGINT ignored, and child processes inherit that. Tests that
# press Ctrl-C need the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Refused(RuntimeError):
    """A test did what its kind of test may not. Not an OSError, so that it looks like no outage."""


class TestGuard:
    """Refuses sockets that leave this machine and, in unit tests, new processes.

    It remembers the refusals of the current test.
    """

    __test__ = False

    def __init__(self) -> None:
        self.enter("no test (collection or session code)")

    def enter(self, test: str, *, online: bool = False, programs: bool = True) -> None:
        self.test, self.online, self.programs = test, online, programs
        self.refused: list[str] = []

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in GUARDED_EVENTS:
            return
        if event in PROCESS_EVENTS:
            if not self.programs:
                self.refuse(f"{event} in a unit test", "move the test to tests/integration")
        elif not self.online and (target := remote_target(event, args)) is not None:
            what = f"{event} to {target!r} would leave this machine"
            self.refuse(what, "use loopback, or mark the test `internet`")

    def refuse(self, what: str, hint: str) -> None:
        self.refused.append(f"{self.test}: {what}")
        raise Refused(f"{self.refused[-1]}; {hint}")


def remote_target(event: str, args: tuple[Any, ...]) -> str | None:
    """The host a socket call wants to reach when it is not this machine, else None."""
    if event.startswith("socket.get"):
        host = args[0]
    else:
        sock, address = args[0], args[1]
        if sock.family in LOCAL_FAMILIES or address is None:
            return None
        host = address[0] if isinstance(address, tuple) else address
    if isinstance(host, bytes | bytearray):
        host = host.decode("ascii", "replace")
    return None if host is None or is_this_machine(str(host)) else str(host)


def is_this_machine(host: str) -> bool:
    """Whether `host` is a loopback or wildcard address, or the name `localhost`."""
    if host in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


GUARD = TestGuard()
sys.addaudithook(GUARD.audit)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail the run when a test was skipped or expected to fail, and list those tests",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # pytest has to import the plugin before this file does.
    from tests.rings import RINGS

    if not item.nodeid.startswith(UNIT_TESTS):
        restore_environment()
    online = item.get_closest_marker("internet") is not None
    GUARD.enter(item.nodeid, online=online, programs=RINGS.may_start_programs(item.nodeid))
    try:
        return (yield)
    finally:
        GUARD.enter("no test (between tests)")


HOME_NUMBERS = itertools.count()
UNIT_TESTS = "tests/unit/"
REMOVED: dict[str, str] = {}
"""Variables that come back when the next test is not a unit test: it takes long to move them."""


def restore_environment() -> None:
    os.environ.update(REMOVED)
    REMOVED.clear()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the homes of all tests of this process."""
    folder = tmp_path_factory.getbasetemp() / "homes"
    folder.mkdir()
    return str(folder)


# One fixture does what each test needs: every further one costs each of thousands of tests 0.3 ms.
@pytest.fixture(autouse=True)
def clean_environment(homes: str) -> Iterator[str]:
    """Leaves only harmless variables, and points the homes at temporary folders.

    Afterwards it fails a test whose code hid a refusal of the guard.
    """
    home = f"{homes}/{next(HOME_NUMBERS)}"
    os.mkdir(home)  # noqa: PTH102 - pathlib is slower
    prefixes = KEPT_PREFIXES + (KEPT_PREFIXES_ONLINE if GUARD.online else ())
    names = [n for n in os.environ if n not in KEPT and not n.upper().startswith(prefixes)]
    REMOVED.update((name, os.environ.pop(name)) for name in names)
    os.environ.update(HOME=home, HERMES_HOME=f"{home}/.hermes")
    yield home
    os.environ.pop("HOME", None)
    os.environ.pop("HERMES_HOME", None)
    if not GUARD.test.startswith(UNIT_TESTS):
        restore_environment()
    # A command run inside the test process chooses a home for the whole process.
    module = sys.modules.get("hermes.config.home")
    if module is not None:
        module._in_force.clear()
    if GUARD.refused:
        pytest.fail("refused: " + "; ".join(GUARD.refused), pytrace=False)


@pytest.fixture
def user_home(clean_environment: str) -> Path:
    """An empty folder that is `HOME` for this test."""
    return Path(clean_environment)


@pytest.fixture
def hermes_home(user_home: Path) -> Path:
    """The path that is `HERMES_HOME` for this test; nothing is there yet."""
    return user_home / ".hermes"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def skipped_tests(reporter: Any) -> list[str]:
    """One line for each skipped or expected-to-fail test the terminal reporter counted."""
    return [
        f"{kind}: {report.nodeid}"
        for kind in ("skipped", "xfailed")
        for report in reporter.stats.get(kind, [])
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    restore_environment()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    if session.config.getoption("--no-skips") and skipped_tests(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--no-skips"):
        return
    names = skipped_tests(terminalreporter)
    if names:
        terminalreporter.section("--no-skips: these tests did not run", red=True, bold=True)
        for name in names:
            terminalreporter.line(name)
