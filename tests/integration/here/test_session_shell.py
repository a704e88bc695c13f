"""Variables that come while a session goes on."""

from pathlib import Path

from hermes.core.cancel import CancelToken
from hermes.terminal import LocalShell


def shell_in(folder: Path) -> LocalShell:
    return LocalShell({"PATH": "/usr/bin:/bin", "HOME": str(folder)}, folder)


async def output(shell: LocalShell, command: str) -> str:
    result = await shell.run(
        command, timeout=10, on_output=lambda _text: None, cancel=CancelToken()
    )
    return result.output.strip()


async def test_command_sees_variables_exported_before_it(tmp_path) -> None:
    shell = shell_in(tmp_path)
    assert await output(shell, "echo [$NOTION_KEY]") == "[]"
    shell.export({"NOTION_KEY": "it's $HOME `x`"})
    assert await output(shell, 'echo "[$NOTION_KEY]"') == "[it's $HOME `x`]"
    shell.export({"NOTION_KEY": "newer"})
    assert await output(shell, "echo [$NOTION_KEY]") == "[newer]"
    assert shell.exported_names() == ("NOTION_KEY",)
    await shell.close()


async def test_nothing_is_started_for_what_no_command_needs(tmp_path) -> None:
    shell = shell_in(tmp_path)
    shell.export({"NOTION_KEY": "x"})
    assert shell.exported_names() == ("NOTION_KEY",)
    assert shell._session is None
    await shell.close()


async def test_a_program_in_the_background_sees_them_too(tmp_path) -> None:
    shell, heard = shell_in(tmp_path), bytearray()
    shell.export({"NOTION_KEY": "secret"})
    running = await shell.start("echo $NOTION_KEY", on_output=heard.extend)
    await running.wait()
    assert heard.decode().strip() == "secret"
    await shell.close()
