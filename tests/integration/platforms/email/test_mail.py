"""What people notice of mail: it comes at once, once, in its thread, and nothing is lost."""

import asyncio
import imaplib
import threading
import time
from email.message import EmailMessage

import msgspec
import pytest

from hermes.sdk.platforms import DeliveryUnknown, NotConnected, OutgoingMessage, SendUnsure
from hermes.sdk.testing.platforms.harness import (
    File,
    Inbox,
    attempt,
    connected,
    failure,
    query_of,
)
from tests.integration.platforms.email.dovecot import PASSWORD
from tests.integration.platforms.email.post_office import PostOffice, bare

TRUSTED = {"require_authentication": True, "authserv_id": "mx.example.org"}


@pytest.fixture
async def office(dovecot, tmp_path):
    office = await PostOffice.start(dovecot, tmp_path, idle=False)
    yield office
    await office.close()


@pytest.fixture
async def pushing(dovecot, tmp_path):
    """Where mail comes only when the server tells of it."""
    office = await PostOffice.start(dovecot, tmp_path)
    office.variables["EMAIL_POLL_INTERVAL"] = "3600"
    yield office
    await office.close()


def seen(office: PostOffice, folder: str = "INBOX") -> list[bool]:
    """For each mail whether it is marked as read."""
    with imaplib.IMAP4("127.0.0.1", office.dovecot.imap) as client:
        client.login(office.address, PASSWORD)
        count = int(client.select(folder, readonly=True)[1][0] or 0)
        if not count:
            return []
        flags = client.fetch(f"1:{count}", "(FLAGS)")[1]
        return [b"\\Seen" in bytes(line) for line in flags if isinstance(line, bytes)]


def threads_of_ours() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("hermes")}


async def test_the_server_tells_of_new_mail_at_once(pushing):
    async with connected(pushing) as (adapter, inbox):
        for word in ("first", "second"):
            await pushing.says(word)
            await inbox.take(word)
        await adapter.probe()


async def test_push_resumes_after_the_connection_broke(pushing):
    async with connected(pushing) as (_, inbox):
        await pushing.says("before")
        await inbox.take("before")
        await pushing.drop()
        await pushing.says("after")
        await inbox.take("after")


async def test_waiting_for_mail_ends_at_once_and_leaves_no_thread(pushing):
    before = threads_of_ours()  # those of other tests
    async with connected(pushing) as (_, inbox):
        await pushing.says("hello")
        await inbox.take("hello")
        assert threads_of_ours() > before
    deadline = time.monotonic() + 100
    while not threads_of_ours() <= before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert threads_of_ours() <= before


async def test_mail_from_before_the_first_start_is_left_alone(office):
    await office.says("last year's")
    async with connected(office) as (_, inbox):
        await office.says("new")
        await inbox.take("new")
        assert inbox.texts() == ["new"]


async def test_mail_is_marked_as_read_only_when_accepted(office):
    inbox = Inbox()
    inbox.refusals = 1_000_000
    async with connected(office, inbox):
        await office.says("keep me")
        await inbox.until(lambda box: len(box.offered) >= 2, "the offers")
        assert seen(office) == [False]
    async with connected(office) as (_, inbox):
        await inbox.take("keep me")
        await office.says("and me")
        await inbox.take("and me")
    assert seen(office)[0] is True


async def test_mail_of_programs_is_neither_answered_nor_marked(office):
    async with connected(office) as (_, inbox):
        await office.says("I am away", Auto_Submitted="auto-replied")
        await office.says("to all", Precedence="bulk")
        await office.says("undelivered", chat="mailer-daemon@example.org")
        await office.says("to myself", chat=office.address)
        await office.says("a person")
        await inbox.take("a person")
        assert inbox.texts() == ["a person"]
    assert seen(office)[:4] == [False] * 4


async def test_new_numbers_of_the_server_lose_no_mail(office, tmp_path):
    async with connected(office) as (_, inbox):
        await office.says("old")
        old = await inbox.take("old")
    (file,) = (tmp_path / "state").glob("inbox-*.json")
    place = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode(place | {"validity": place["validity"] - 1, "uid": 900}))
    await office.says("meanwhile")
    async with connected(office) as (_, inbox):
        await inbox.take("meanwhile")
        assert {e.message_id for e in inbox.kept if e.text == "old"} <= {old.message_id}


async def test_sent_mail_is_kept_among_the_sent_once(office, dovecot, tmp_path):
    saving = await PostOffice.start(dovecot, tmp_path / "b", saves_sent=True, idle=False)
    for each in (office, saving):
        async with connected(each) as (adapter, inbox):
            await each.says("hello")
            event = await inbox.take("hello")
            await adapter.send(event.source.target, OutgoingMessage("answer"), "sent-1")
        assert seen(each, "Sent") == [True]
    await saving.close()


async def test_mail_in_doubt_is_never_sent_again(office):
    """It keeps no sent mail, so a mail in doubt is never sent again."""
    async with connected(office) as (adapter, inbox):
        await office.says("hello")
        target, message = (await inbox.take("hello")).source.target, OutgoingMessage("in doubt")
        office.trouble("cut_after")
        assert isinstance(await attempt(adapter, target, message, "doubt-1"), SendUnsure)
    async with connected(office) as (adapter, _):
        query = query_of("doubt-1")
        assert isinstance(
            await failure(adapter.was_delivered(query, target, message)), DeliveryUnknown
        )


async def test_an_answer_stays_in_its_thread_with_every_mail_program(office):
    async with connected(office) as (adapter, inbox):
        first = await office.says("how are you?", Subject="A question")
        event = await inbox.take("Subject: A question\n\nhow are you?")
        assert event.source.thread_id == first
        answer = OutgoingMessage("fine", reply_to=first)
        ours = await adapter.send(event.source.target, answer, "thread-1")
        mail = office.smtp.mails[0]
        assert (mail["Subject"], bare(mail["In-Reply-To"])) == ("Re: A question", first)
        assert mail["Auto-Submitted"] == "auto-replied"
        # This program names only the mail that it answers.
        await office.says("good", reply_to=ours, Subject="Re: A question")
        again = await inbox.take("good")
        assert again.source.thread_id == first
        assert again.reply_to_text == "fine"
        await adapter.send(again.source.target, OutgoingMessage("bye"), "thread-2")
        assert office.smtp.mails[1]["Subject"] == "Re: A question"


async def test_a_mail_of_our_own_begins_a_thread(office):
    async with connected(office) as (adapter, inbox):
        await office.says("hello")
        target = (await inbox.take("hello")).source.target
        bare_target = msgspec.structs.replace(target, thread_id="")
        ours = await adapter.send(
            bare_target, OutgoingMessage("Report of today\nall well"), "cron-1"
        )
        mail = office.smtp.mails[0]
        assert (mail["Subject"], mail["In-Reply-To"]) == ("Report of today", None)
        assert mail["Auto-Submitted"] == "auto-generated"
        await office.says("thanks", reply_to=ours)
        assert (await inbox.take("thanks")).source.thread_id == ours


async def test_a_sender_who_is_not_proven_gets_no_answer(dovecot, tmp_path):
    office = await PostOffice.start(dovecot, tmp_path, idle=False, **TRUSTED)
    header = "Authentication_Results"
    async with connected(office) as (_, inbox):
        await office.says("no word")
        await office.says("failed", **{header: "mx.example.org; dmarc=fail"})
        await office.says("forged", **{header: "mx.evil.example; dmarc=pass"})
        await office.says("proven", **{header: "mx.example.org; dmarc=pass header.from=x"})
        await inbox.take("proven")
        assert inbox.texts() == ["proven"]
    await office.close()


async def test_of_a_mail_that_is_too_large_the_beginning_is_read(dovecot, tmp_path):
    office = await PostOffice.start(dovecot, tmp_path, idle=False, max_bytes=100_000)
    async with connected(office) as (_, inbox):
        big = File("document", "big.bin", bytes(400_000), "application/octet-stream")
        await office.says("look", files=(big,))
        await inbox.until(lambda box: bool(box.kept), "the mail")
        (event,) = inbox.kept
        assert event.text.startswith("look\n\n[The mail is larger than 100.0 kB")
        assert event.media == ()
    await office.close()


async def test_attachments_are_left_alone_when_asked(office):
    adapter, inbox = office.adapter(skip_attachments=True), Inbox()
    await adapter.connect(inbox.receive)
    await office.says("look", files=(File("document", "a.pdf", b"%PDF", "application/pdf"),))
    assert (await inbox.take("look")).media == ()
    await adapter.disconnect()


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_tls_is_used_and_a_strange_certificate_refused(dovecot, tmp_path, security):
    office = await PostOffice.start(
        dovecot, tmp_path, idle=False, imap_security=security, ca_file=str(dovecot.certificate)
    )
    port = dovecot.imaps if security == "tls" else dovecot.imap
    office.variables["EMAIL_IMAP_PORT"] = str(port)
    async with connected(office) as (_, inbox):
        await office.says("over TLS")
        await inbox.take("over TLS")
    strict = await PostOffice.start(dovecot, tmp_path, idle=False, imap_security=security)
    strict.variables["EMAIL_IMAP_PORT"] = str(port)
    error = await failure(strict.adapter().connect(Inbox().receive))
    assert isinstance(error, NotConnected)
    assert "certificate" in str(error).lower()
    await office.close()
    await strict.close()


async def test_a_broken_mail_does_not_hold_up_the_others(office):
    async with connected(office) as (_, inbox):
        for number, raw in enumerate(
            (
                b"From: ann@example.org\r\nContent-Type: multipart/mixed\r\n\r\nno boundary",
                b"From: =?utf-8?B?////?= <ann@example.org>\r\nContent-Type: a/b/c\r\n\r\n\xff!!!",
                b"From: ann@example.org\r\nContent-Type: text/plain; charset=no\r\n\r\n\xff",
                b"From: a@b, c@d\r\n\r\ntwo senders",
                b"Subject: nobody\r\n\r\nno sender",
                b"From: ann@example.org\r\nFrom: owner@example.org\r\n\r\ntwo headers",
                b"From: owner@example.org <eve@example.org>\r\n\r\na name like an address",
            )
        ):
            mail = f"Message-ID: <broken-{number}@x>\r\n".encode() + raw
            await office.deliver(mail)
        await office.says("whole")
        await inbox.take("whole")
        writers = {event.source.user_id for event in inbox.kept}
        assert writers == {"ann@example.org"}
        assert not {"two senders", "no sender", "two headers"} & set(inbox.texts())


async def test_hostile_mails_are_parsed_quickly(office):
    """Without a limit each takes minutes at least; the time limit of the tests ends them."""
    async with connected(office) as (_, inbox):
        for number, raw in enumerate(
            (
                b"From: " + b'"' * 30_000 + b"<ann@example.org>\r\n\r\nquotes",
                b"From: ann@example.org\r\nContent-Type: text/html\r\n\r\n" + b"<a " * 70_000,
                b"From: ann@example.org\r\nContent-Type: text/plain; charset=punycode\r\n\r\na-"
                + b"z9" * 300_000,
            )
        ):
            await office.deliver(f"Message-ID: <busy-{number}@x>\r\n".encode() + raw)
        await office.says("whole")
        await inbox.take("whole")


async def test_a_mail_that_breaks_the_connection_is_left_after_a_while(office):
    office.imap.poison = b"do not read this"
    async with connected(office) as (_, inbox):
        await office.says("do not read this")
        await office.says("whole")
        await inbox.take("whole")
        assert inbox.texts() == ["whole"]


async def test_mail_in_html_and_old_charsets_is_read(office):
    async with connected(office) as (_, inbox):
        html = EmailMessage()
        html["From"], html["Message-ID"] = "ann@example.org", "<html@x>"
        html.set_content("<p>Hello <b>you</b></p><div style='display:none'>hidden</div>", "html")
        await office.deliver(html.as_bytes())
        await office.deliver(
            b"From: ann@example.org\r\nMessage-ID: <old@x>\r\n"
            b"Content-Type: text/plain; charset=iso-8859-15\r\n\r\n\xa4 100"
        )
        await inbox.take("Hello you")
        await inbox.take("€ 100")
