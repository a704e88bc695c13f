"""Commands on this machine, with real processes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError
from hermes.terminal import CommandResult, LocalShell, OutputLimits

Run = Callable[..., Awaitable[CommandResult]]
Gone = Callable[[int], Awaitable[None]]


async def test_output_of_both_streams_comes_back_in_order(run: Run) -> None:
    result = await run("echo one; echo two >&2; echo three")
    assert (result.output, result.exit_code) == ("one\ntwo\nthree\n", 0)


async def test_the_exit_code_is_the_commands_own(run: Run) -> None:
    assert (await run("exit 3")).exit_code == 3
    assert (await run("false")).exit_code == 1
    assert (await run("kill -9 $$")).exit_code == 137
    assert (await run("no-such-program")).exit_code == 127


async def test_folder_and_exported_variables_last_also_over_exit(
    run: Run, shell: LocalShell, tmp_path: Path
) -> None:
    await run("mkdir sub; cd sub; export GREETING='hello\nit'\"'\"'s \"me\" $x'; LOCAL=1; exit 4")
    assert shell.cwd == str(tmp_path / "sub")
    result = await run('pwd; printf "%s|%s" "$GREETING" "$LOCAL"')
    assert result.output == f'{tmp_path}/sub\nhello\nit\'s "me" $x|'


async def test_an_unset_variable_stays_unset(run: Run) -> None:
    await run("unset HOME")
    assert (await run('echo "[$HOME]"')).output == "[]\n"


async def test_cd_minus_goes_back_over_commands(run: Run, tmp_path: Path) -> None:
    await run("cd /")
    assert (await run("cd - >/dev/null; pwd")).output == f"{tmp_path}\n"


@pytest.mark.parametrize("command", ["if then", 'echo "open', "echo $(", "done"])
async def test_a_syntax_error_is_reported_and_harms_nothing(run: Run, command: str) -> None:
    await run("export KEPT=yes; cd /")
    broken = await run(command)
    assert broken.exit_code != 0
    assert "shell: line " in broken.output
    assert (await run("echo $KEPT $PWD")).output == "yes /\n"


async def test_options_functions_and_traps_of_a_command_do_not_stop_it_being_remembered(
    run: Run,
) -> None:
    await run("set -euC; export() { :; }; printf() { :; }; cd /; false")
    assert (await run("pwd; echo still")).output == "/\nstill\n"


async def test_a_command_replaced_by_exec_keeps_the_state_before_it(run: Run) -> None:
    await run("cd /")
    assert (await run("cd /usr; exec echo bye")).output == "bye\n"
    assert (await run("pwd")).output == "/\n"


async def test_a_folder_for_one_command_does_not_stay(run: Run, tmp_path: Path) -> None:
    assert (await run("pwd; cd /usr", cwd="/")).output == "/\n"
    assert (await run("pwd")).output == f"{tmp_path}\n"
    (tmp_path / "sub").mkdir()
    assert (await run("pwd", cwd="~/sub")).output == f"{tmp_path}/sub\n"
    with pytest.raises(ToolError, match="does not exist"):
        await run("pwd", cwd="nowhere")


async def test_a_deleted_working_folder_gives_way_to_the_first_one(
    run: Run, tmp_path: Path
) -> None:
    await run("mkdir sub; cd sub; rmdir ../sub")
    assert (await run("pwd")).output == f"{tmp_path}\n"


async def test_only_the_given_environment_is_seen(run: Run, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in (await run("env")).output
    assert "sk-secret" not in (await run("env")).output


async def test_a_command_that_reads_finds_no_input(run: Run) -> None:
    assert (await run("cat; read -r line || echo none")).output == "none\n"


async def test_bytes_that_are_not_utf_8_are_replaced(run: Run) -> None:
    assert (await run(r"printf 'a\xff\xc3\xa9'")).output == "a�é"


async def test_a_long_command_is_no_problem(run: Run) -> None:
    text = "x" * 300_000
    assert (await run(f"cat <<'EOF' | wc -c\n{text}\nEOF")).output.strip() == "300001"


async def test_output_is_shown_while_the_command_runs(run: Run, tmp_path: Path) -> None:
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        (tmp_path / "go").touch()

    # The command ends only after its first line was shown.
    result = await run(
        "echo first; until [ -e go ]; do sleep 0.01; done; echo last", on_output=show
    )
    assert "".join(shown) == result.output == "first\nlast\n"


async def test_a_command_that_prints_forever_is_bounded_and_stopped(tmp_path: Path) -> None:
    shell = LocalShell({"PATH": "/usr/bin:/bin"}, tmp_path, OutputLimits(1_000, 100, 100))
    result = await shell.run("yes", timeout=0.5, on_output=len, cancel=CancelToken())
    assert result.timed_out
    assert result.truncated
    assert len(result.output) < 1_200
    await shell.close()


async def test_a_timeout_ends_grandchildren_and_keeps_the_output(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    command = "echo early; (sleep 600 & echo $! > pid; wait) & wait"
    result = await run(command, timeout=0.5)
    assert (result.timed_out, result.exit_code, result.output) == (True, 124, "early\n")
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_command_that_ignores_sigterm_is_killed(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    result = await run("trap '' TERM; echo $$ > pid; sleep 600; sleep 600", timeout=0.3)
    assert result.timed_out
    await gone(int((tmp_path / "pid").read_text()))


async def test_cancel_stops_the_command_before_it_goes_on(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    cancel = CancelToken()

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    command = "echo $$ > pid; echo ready; sleep 600; touch finished"
    with pytest.raises(Interrupted, match="enough"):
        await run(command, cancel=cancel, on_output=stop)
    await gone(int((tmp_path / "pid").read_text()))
    assert not (tmp_path / "finished").exists()
    assert (await run("echo usable")).output == "usable\n"


async def test_cancel_reaches_a_command_inside_a_larger_scope(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    cancel = CancelToken()

    async def work() -> None:
        with cancel.scope():
            await run("echo $$ > pid; echo ready; sleep 600", cancel=cancel, on_output=stop)

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    with pytest.raises(Interrupted, match="enough"):
        await work()
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_cancelled_task_stops_its_command(run: Run, gone: Gone, tmp_path: Path) -> None:
    ready = asyncio.Event()
    command = "echo $$ > pid; echo ready; sleep 600"
    task = asyncio.ensure_future(run(command, on_output=lambda _text: ready.set()))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_background_child_does_not_hold_the_call_and_survives_it(
    run: Run, tmp_path: Path
) -> None:
    # It goes on writing to the pipe of the finished call, which must not kill it.
    loop = "while :; do echo noise; sleep 0.01; [ -e stop ] && touch stopped && exit; done"
    result = await run(f"({loop}) & echo $! > pid; echo started")
    assert "started" in result.output
    pid = int((tmp_path / "pid").read_text())
    await run("sleep 0.2")
    assert psutil.pid_exists(pid)
    await run("touch stop; until [ -e stopped ]; do sleep 0.01; done")


async def test_a_background_child_that_floods_does_not_hold_the_call(run: Run) -> None:
    assert (await run("yes & echo $!")).exit_code == 0


async def test_closing_ends_what_was_left_in_the_background(
    run: Run, shell: LocalShell, gone: Gone, tmp_path: Path
) -> None:
    await run("sleep 600 & echo $! > pid")
    await shell.close()
    await gone(int((tmp_path / "pid").read_text()))


async def test_commands_wait_for_each_other(run: Run, tmp_path: Path) -> None:
    await asyncio.gather(*(run(f"echo {n}a >> log; sleep 0.05; echo {n}b >> log") for n in "12"))
    assert (tmp_path / "log").read_text() in ("1a\n1b\n2a\n2b\n", "2a\n2b\n1a\n1b\n")


async def test_plain_sh_is_enough(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    shell = LocalShell({"PATH": str(tools), "A": "b"}, tmp_path)

    async def output(command: str) -> tuple[str, int]:
        result = await shell.run(command, timeout=60, on_output=len, cancel=CancelToken())
        return result.output, result.exit_code

    assert await output("cd /; export A='c d'; exit 5") == ("", 5)
    assert await output('echo "$A $PWD"; echo "${BASH_VERSION-no bash}"') == ("c d /\nno bash\n", 0)
    assert (await output("if then"))[1] == 2
    assert await output("echo on") == ("on\n", 0)
    await shell.close()


async def test_a_child_in_a_session_of_its_own_ends_with_the_command(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    command = "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; wait"
    assert (await run(command, timeout=0.5)).timed_out
    await gone(int((tmp_path / "pid").read_text()))


STUBBORN = {
    "ignores SIGTERM": "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done",
    "prints forever": "echo ready; yes",
    "has stubborn children": "(trap '' TERM; echo ready; sleep 600) & (trap '' TERM; sleep 600)",
    "is stopped": "echo ready; kill -STOP $$",
    "reads its terminal": "echo ready; cat </dev/tty || sleep 600",
    "forks again and again": "echo ready; f() { sleep 0.01; f & wait; }; f",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_whatever_the_command_does_a_cancel_ends_it(
    run: Run, command: str, tmp_path: Path
) -> None:
    cancel = CancelToken()

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    with pytest.raises(Interrupted):
        await run(command, timeout=600, on_output=stop, cancel=cancel)
    while working_in(tmp_path):
        await asyncio.sleep(0.02)
    assert (await run("echo on")).output == "on\n"


def working_in(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cwd", "status"])
        if process.info["cwd"] == str(folder) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def test_a_cancel_while_a_background_child_holds_the_output_ends_both(
    run: Run, gone: Gone, tmp_path: Path
) -> None:
    cancel = CancelToken()

    def stop(_text: str) -> None:
        cancel.cancel("enough")

    with pytest.raises(Interrupted):
        await run("sleep 600 & echo $! > pid; echo ready; sleep 600", cancel=cancel, on_output=stop)
    await gone(int((tmp_path / "pid").read_text()))


async def test_our_own_folder_may_be_deleted_under_us(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert (await run("pwd")).output == f"{tmp_path}\n"


async def test_output_with_nul_bytes_and_progress_bars_comes_as_it_is(run: Run) -> None:
    assert (await run(r"printf 'a\0b\r10%%\r20%%\n'")).output == "a\0b\r10%\r20%\n"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_a_command_that_is_no_text_is_refused(run: Run, command: str) -> None:
    with pytest.raises(ToolArgumentsInvalid):
        await run(command)


async def test_the_keeper_of_the_lifeline_may_be_killed(
    run: Run, shell: LocalShell, gone: Gone, tmp_path: Path
) -> None:
    await run("export KEPT=yes; sleep 600 & echo $! > pid")
    assert shell._session is not None
    shell._session.lifeline._supervisor.kill()
    shell._session.lifeline._supervisor.wait()
    assert (await run("echo $KEPT")).output == "yes\n"
    await shell.close()
    await gone(int((tmp_path / "pid").read_text()))


async def test_many_commands_leave_nothing_open(run: Run) -> None:
    await run("true")
    before = psutil.Process().num_fds()
    for _ in range(5):
        await run("echo x; true &")
    await run("sleep 0.1")
    assert psutil.Process().num_fds() == before
