"""Limits of a job that several people made: what all of them may."""

import pytest

from hermes.cron.limits import By, common


@pytest.mark.parametrize(
    ("some", "others", "both"),
    [
        ((), (), ()),
        (("web",), (), ("web",)),
        ((), ("web",), ("web",)),
        (("terminal", "web"), ("web", "todo"), ("web",)),
        (("terminal",), ("web",), ("-all",)),
        (("all",), ("web", "todo"), ("web", "todo")),
        (("all", "-terminal"), ("*",), ("all", "*", "-terminal")),
        (("all", "-terminal"), ("terminal", "web"), ("terminal", "web", "-terminal")),
        (("-all",), ("all",), ("-all",)),
    ],
)
def test_toolsets_are_those_that_both_have(some: tuple, others: tuple, both: tuple) -> None:
    assert set(common(some, others)) == set(both) == set(common(others, some))


@pytest.mark.parametrize(
    ("chat", "job", "both"),
    [
        ("sandbox", "", "sandbox"),
        ("", "sandbox", "sandbox"),
        ("local", "sandbox", "sandbox"),
        ("sandbox", "local", "sandbox"),
        ("local", "", ""),
        ("", "local", ""),
        ("local", "local", "local"),
        ("docker", "sandbox", "docker"),
    ],
)
def test_nobody_leads_out_of_where_commands_run(chat: str, job: str, both: str) -> None:
    assert By(backend=chat).within(By(backend=job)).backend == both


def test_who_is_limited_stays_so_and_pays_no_more() -> None:
    guest = By(user="telegram:7", folder="/w/7", day_usd=2.0)
    assert By(day_usd=1.0).within(guest) == By(user="telegram:7", folder="/w/7", day_usd=1.0)
    assert By().within(guest) == guest
    assert guest.within(By(day_usd=0.0)).day_usd == 0.0
