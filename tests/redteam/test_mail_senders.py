"""An attacker writes the owner's address into From; only the owner's mail server makes an owner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.config.settings import Settings
from hermes.config.settings.platforms import GatewaySettings
from hermes.gateway.auth import Authorizer
from hermes.gateway.pairing import PairingStore
from hermes.gateway.questions import same_person
from hermes.gateway.session_keys import build_session_key, memory_scope
from hermes.sdk import SystemClock
from hermes.sdk.platforms import SessionSource
from hermes.sdk.testing.platforms.harness import connected
from hermes_plugins.platforms.email.manifest import MANIFEST
from tests.integration.platforms.email.dovecot import Dovecot, running_dovecot
from tests.integration.platforms.email.post_office import PostOffice

OWNER = "owner@example.org"
SERVER = "mx.example.net"
PASS = "dmarc=pass header.from=example.org"
RESULTS = "Authentication-Results"


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with running_dovecot() as server:
        yield server


NAMED = {"authserv_id": SERVER}
REQUIRED = {"authserv_id": SERVER, "require_authentication": True}
FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "no header": ({}, ""),
    "pass by the attacker's server": ({}, f"mx.evil.example; {PASS}"),
    "pass in the name of a guess": ({}, f"{SERVER}; {PASS}"),
    "named server, no header": (NAMED, ""),
    "named server, forged header": (NAMED, f"mx.evil.example; {PASS}"),
    "named server, longer name": (NAMED, f"{SERVER}.evil.example; {PASS}"),
    "named server, name in a comment": (NAMED, f"evil.example ({SERVER}); {PASS}"),
    "named server, name as a result": (NAMED, f"evil.example; {SERVER}; {PASS}"),
    "named server, pass of another domain": (NAMED, f"{SERVER}; dkim=pass header.d=evil.example"),
    "named server, failed": (NAMED, f"{SERVER}; dmarc=fail header.from=example.org"),
    "required, no header": (REQUIRED, ""),
    "required, forged header": (REQUIRED, f"mx.evil.example; {PASS}"),
}  # fmt: skip


def authorizer(folder: Path) -> Authorizer:
    """The gateway's door, with the owner on both lists."""
    settings = Settings(gateway=GatewaySettings(owners=(f"email:{OWNER}",)))
    allowed = {"EMAIL_ALLOWED_USERS": OWNER}
    return Authorizer(
        settings, allowed.get, PairingStore(folder, SystemClock()), {"email": MANIFEST}
    )


async def roles(
    office: PostOffice, door: Authorizer, header: str
) -> tuple[list[str], list[SessionSource]]:
    """Return the role of each mail that reached the gateway: the attack, then a genuine one."""
    async with connected(office) as (_, inbox):
        await office.says("/yolo", chat=OWNER, **({RESULTS: header} if header else {}))
        genuine = f"{SERVER}; {PASS}"
        await office.says("the end", chat=OWNER, **{RESULTS: genuine})
        await inbox.take("the end")
        sources = [event.source for event in inbox.kept]
    found = [door.recognize(source) for source in sources]
    return [admission.role or "" if admission else "" for admission in found], sources


@pytest.mark.parametrize("kind", FORGERIES)
async def test_a_forged_owner_is_a_guest_at_most(
    kind: str, dovecot: Dovecot, tmp_path: Path
) -> None:
    extra, header = FORGERIES[kind]
    office = await PostOffice.start(dovecot, tmp_path, idle=False, **extra)
    found, sources = await roles(office, authorizer(tmp_path / "pairing"), header)
    await office.close()

    genuine = "owner" if extra else "guest"
    assert found in ([genuine], ["guest", genuine]), found
    if len(found) == 2 and extra:
        forged, real = sources
        assert not same_person(forged, real), "a forged mail must not answer the owner's questions"
        assert build_session_key(forged) != build_session_key(real)
        assert memory_scope(forged) != memory_scope(real)


async def test_only_an_explicit_setting_trusts_from(dovecot: Dovecot, tmp_path: Path) -> None:
    """The control: with the check switched off, the attack succeeds."""
    office = await PostOffice.start(dovecot, tmp_path, idle=False, require_authentication=False)
    found, _ = await roles(office, authorizer(tmp_path / "pairing"), "")
    await office.close()
    assert found == ["owner", "owner"]


async def test_the_gateway_names_the_setting_at_its_start(dovecot: Dovecot, tmp_path: Path) -> None:
    for extra, warned in (({}, True), (NAMED, False), ({"require_authentication": False}, False)):
        office = await PostOffice.start(dovecot, tmp_path, idle=False, **extra)
        notice = office.adapter().notice
        assert ("platforms.email.extra.authserv_id" in notice) is warned
        await office.close()
