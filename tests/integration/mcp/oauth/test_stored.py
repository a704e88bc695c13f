"""Using a login without anybody there: renewed, shared between processes, and ended."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from hermes.config.settings import McpServer
from hermes.core.testing.http_server import Outgoing, RecordedRequest
from hermes.mcp import LoginFailed, LoginRequired, McpHub
from hermes.mcp.oauth import LoginStore, logout
from hermes.mcp.transport import ServerUnreachable
from tests.integration.mcp.oauth.guarded import WRITE, form_of, query_of, reply
from tests.integration.mcp.oauth.scene import NAME, Scene

ACTOR = str(Path(__file__).with_name("actor.py"))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_without_a_login_the_way_to_one_is_named(scene: Scene) -> None:
    with pytest.raises(LoginRequired, match="no user has signed in") as caught:
        await scene.authorizer().headers()
    assert "hermes mcp login tickets" in caught.value.hint


async def test_a_token_is_used_while_it_lasts_and_then_renewed(scene: Scene) -> None:
    made = await scene.sign_in()
    authorizer = scene.authorizer()
    assert await authorizer.headers() == bearer(made.access_token)
    scene.clock.time += 3600 - 59
    given = await authorizer.headers()
    new = scene.stored()
    assert given == bearer(new.access_token) != bearer(made.access_token)
    assert new.refresh_token != made.refresh_token
    assert form_of(scene.login.seen("/token")[-1])["resource"] == scene.guarded.url
    assert new.expires_at == scene.clock.time + 3600
    assert scene.store.path.stat().st_mode & 0o777 == 0o600


async def test_a_short_lived_token_is_used_for_most_of_its_lifetime(scene: Scene) -> None:
    made = await scene.sign_in()
    scene.change(expires_at=made.obtained_at + 20)
    authorizer = scene.authorizer()
    for _ in range(3):
        assert await authorizer.headers() == bearer(made.access_token)
        scene.clock.time += 4.9
    scene.clock.time += 1
    assert await authorizer.headers() != bearer(made.access_token)
    assert len(scene.login.seen("/token")) == 2, "the login and one renewal"


async def test_a_refresh_token_that_is_not_replaced_is_kept(scene: Scene) -> None:
    made = await scene.sign_in()
    scene.login.pages["/token"] = lambda _: reply(
        200, {"access_token": "new", "token_type": "Bearer"}
    )
    scene.clock.time += 4000
    await scene.authorizer().headers()
    assert scene.stored().refresh_token == made.refresh_token
    assert scene.stored().scope == made.scope


async def test_a_token_that_is_refused_is_renewed_once(scene: Scene) -> None:
    made = await scene.sign_in()
    authorizer = scene.authorizer()
    await authorizer.headers()
    scene.clock.time += 100
    assert await authorizer.refused(401, "") is True
    new = await authorizer.headers()
    assert new != bearer(made.access_token)
    # The new one is refused as well: another one would not be better.
    assert await authorizer.refused(401, "") is True
    assert await authorizer.headers() == new
    assert len(scene.login.seen("/token")) == 2


async def test_a_token_another_process_renewed_is_tried_first(scene: Scene) -> None:
    await scene.sign_in()
    one, other = scene.authorizer(), scene.authorizer()
    await one.headers()
    await other.headers()
    scene.clock.time += 100
    assert await one.refused(401, "") is True
    assert await other.refused(401, "") is True
    assert await one.headers() == await other.headers()
    assert len(scene.login.seen("/token")) == 2


async def test_many_at_once_renew_once(scene: Scene) -> None:
    await scene.sign_in()
    scene.clock.time += 4000
    authorizers = [scene.authorizer() for _ in range(4)]
    given = await asyncio.gather(*(each.headers() for each in authorizers for _ in range(4)))
    assert len({each["Authorization"] for each in given}) == 1
    assert len(scene.login.seen("/token")) == 2


async def started(scene: Scene, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", ACTOR, str(scene.folder), scene.guarded.url, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_processes_that_renew_at_once_do_not_lose_the_login(scene: Scene) -> None:
    await scene.sign_in()
    scene.change(expires_at=1.0)
    actors = [await started(scene) for _ in range(3)]
    ended = await asyncio.gather(*(each.communicate(b"go\n") for each in actors))
    given = {token for out, _ in ended for token in json.loads(out)}
    assert given == {f"Bearer {scene.stored().access_token}"}
    assert scene.stored().access_token in scene.login.tokens
    assert len(scene.login.seen("/token")) == 2, "the login, and one renewal for all"


async def test_a_login_that_cannot_be_written_works_until_the_process_ends(scene: Scene) -> None:
    before = await scene.sign_in()
    scene.change(expires_at=1.0)
    actor = await started(scene, "full-disk")
    out, err = await actor.communicate(b"go\n")
    one, other = json.loads(out)
    assert one == other == f"Bearer {next(iter(scene.login.tokens))}"
    assert b"is lost when this process ends" in err
    assert scene.stored().refresh_token == before.refresh_token, "the old file is whole"


async def test_renewal_continues_after_its_caller_was_cancelled(scene: Scene) -> None:
    await scene.sign_in()
    scene.clock.time += 4000
    usual = scene.login.pages["/token"]

    def slow(request: RecordedRequest) -> Outgoing:
        answer = usual(request)
        return Outgoing(answer.status, answer.headers, [0.3, *answer.actions])

    scene.login.pages["/token"] = slow
    authorizer = scene.authorizer()
    waiting = asyncio.create_task(authorizer.headers())
    while len(scene.login.seen("/token")) < 2:
        await asyncio.sleep(0.01)
    waiting.cancel()
    while scene.stored().access_token not in scene.login.tokens:
        await asyncio.sleep(0.01)
    assert await authorizer.headers() == bearer(scene.stored().access_token)
    assert len(scene.login.seen("/token")) == 2


async def test_a_login_that_was_taken_back_ends(scene: Scene) -> None:
    made = await scene.sign_in()
    scene.login.refreshes.clear()
    scene.clock.time += 4000
    with pytest.raises(LoginRequired, match="the login has ended") as caught:
        await scene.authorizer().headers()
    assert "hermes mcp login tickets" in caught.value.hint
    assert made.refresh_token not in str(caught.value)
    assert scene.stored().gone
    with pytest.raises(LoginRequired, match="has ended"):
        await scene.authorizer().headers()
    assert len(scene.login.seen("/token")) == 2, "a login that is over is not tried again"
    await scene.sign_in()
    assert await scene.authorizer().headers()


async def test_an_expired_token_without_a_renewal_ends(scene: Scene) -> None:
    await scene.sign_in()
    scene.change(refresh_token="")
    authorizer = scene.authorizer()
    scene.clock.time += 3590
    assert await authorizer.headers(), "the last seconds of a token are used"
    with pytest.raises(LoginRequired):
        await authorizer.refused(401, "")
    scene.clock.time += 10
    with pytest.raises(LoginRequired):
        await authorizer.headers()


async def test_a_login_server_that_is_down_does_not_matter_while_the_token_lasts(scene):
    made = await scene.sign_in()
    scene.login.pages["/token"] = lambda _: reply(503)
    scene.clock.time += 3570
    assert await scene.authorizer().headers() == bearer(made.access_token)
    scene.clock.time += 100
    with pytest.raises(ServerUnreachable, match="HTTP 503") as caught:
        await scene.authorizer().headers()
    assert caught.value.transient
    assert not scene.stored().gone


async def test_an_error_of_the_login_server_is_shown_without_the_token(scene: Scene) -> None:
    made = await scene.sign_in()
    said = f"bad {made.refresh_token}"
    scene.login.pages["/token"] = lambda _: reply(
        400, {"error": "invalid_target", "error_description": said}
    )
    scene.clock.time += 4000
    with pytest.raises(LoginFailed, match="invalid_target") as caught:
        await scene.authorizer().headers()
    assert made.refresh_token not in str(caught.value)
    assert not scene.stored().gone


async def test_ended_login_is_reported_once(scene: Scene) -> None:
    await scene.sign_in()
    scene.login.refreshes.clear()
    scene.clock.time += 4000
    notices: list[str] = []
    server = McpServer(url=scene.guarded.url, auth="oauth")
    authorizer = scene.authorizer()
    async with McpHub(
        {"tickets": server}, authorizers=lambda *_: authorizer, tell=notices.append
    ) as hub:
        for _ in range(2):
            assert await hub.tools() == []
    (text,) = notices
    assert "tickets cannot be used: tickets: the login has ended" in text
    assert text.endswith("(`hermes mcp login tickets` signs in)")


async def test_more_rights_are_asked_for_at_the_next_login(scene: Scene) -> None:
    await scene.sign_in()
    authorizer = scene.authorizer()
    await authorizer.headers()
    challenge = f'Bearer error="insufficient_scope", scope="{WRITE}"'
    with pytest.raises(LoginRequired, match=WRITE):
        await authorizer.refused(403, challenge)
    made = await scene.sign_in()
    asked = query_of(scene.login.seen("/authorize")[-1])["scope"]
    assert asked == made.scope == f"tickets:read {WRITE}"
    assert await authorizer.refused(403, challenge) is True, "there is a new login"
    await authorizer.headers()
    assert await authorizer.refused(403, challenge) is False, "it has that right already"


@pytest.mark.parametrize("challenge", ["", "Bearer", 'Bearer error="invalid_token"'])
async def test_a_plain_no_stays_one(scene: Scene, challenge: str) -> None:
    await scene.sign_in()
    authorizer = scene.authorizer()
    await authorizer.headers()
    assert await authorizer.refused(403, challenge) is False
    assert len(scene.login.seen("/token")) == 1


async def test_a_token_is_for_one_address(scene: Scene) -> None:
    await scene.sign_in()
    with pytest.raises(LoginRequired, match="another address"):
        await scene.authorizer(f"{scene.login.origin}/mcp").headers()
    with pytest.raises(LoginFailed, match="not protected by TLS"):
        await scene.authorizer("http://mcp.example.com/mcp").headers()


async def test_signing_out_ends_the_login_on_both_sides(scene: Scene) -> None:
    assert await logout(NAME, scene.folder) is None
    made = await scene.sign_in()
    assert await logout(NAME, scene.folder) == ""
    assert not scene.store.path.exists()
    assert made.access_token not in scene.login.tokens
    assert made.refresh_token not in scene.login.refreshes


async def test_signing_out_works_also_when_the_other_side_does_not(scene: Scene) -> None:
    await scene.sign_in()
    scene.login.pages["/revoke"] = lambda _: reply(400, {"error": "unsupported_token_type"})
    assert "unsupported_token_type" in (await logout(NAME, scene.folder) or "")
    assert not scene.store.path.exists()
    scene.login.metadata["revocation_endpoint"] = ""
    await scene.sign_in()
    assert "no way to end a login" in (await logout(NAME, scene.folder) or "")
    await scene.sign_in()
    scene.store.path.write_text("no JSON")
    assert await logout(NAME, scene.folder) == ""
    assert not scene.store.path.exists()


async def test_a_name_is_never_a_path(scene: Scene) -> None:
    path = LoginStore(scene.folder, "../../x y").path
    assert path.parent == scene.folder
    assert path != LoginStore(scene.folder, "../../x_y").path
