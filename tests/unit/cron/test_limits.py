"""Limits of a job that several users changed."""

import pytest

from hermes.cron.job import JobLimits, intersect_toolsets


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
def test_toolsets_are_intersected(some: tuple, others: tuple, both: tuple) -> None:
    assert (
        set(intersect_toolsets(some, others)) == set(both) == set(intersect_toolsets(others, some))
    )


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
def test_more_confined_backend_is_used(chat: str, job: str, both: str) -> None:
    assert JobLimits(backend=chat).intersect(JobLimits(backend=job)).backend == both


def test_user_folder_and_lower_budget_are_kept() -> None:
    guest = JobLimits(user="telegram:7", folder="/w/7", day_usd=2.0)
    assert JobLimits(day_usd=1.0).intersect(guest) == JobLimits(
        user="telegram:7", folder="/w/7", day_usd=1.0
    )
    assert JobLimits().intersect(guest) == guest
    assert guest.intersect(JobLimits(day_usd=0.0)).day_usd == 0.0
