"""What a mail says, whatever program wrote it."""

from email.message import EmailMessage
from pathlib import Path

from hermes.gateway.platforms.email.inbound import attachment_content, parse_bytes, parse_mail
from hermes.gateway.platforms.email.outbound import (
    MailThread,
    ThreadStore,
    compose_mail,
    make_message_id,
)
from hermes.gateway.platforms.kit.contract import Media, OutgoingMessage
from hermes.util.clock import SystemClock

OWN = "hermes@example.org"


def mail(text: bytes | str) -> EmailMessage:
    raw = text if isinstance(text, bytes) else text.encode()
    return parse_bytes(b"From: Ann <ann@example.org>\n" + raw)


def sent(
    message: OutgoingMessage, thread: MailThread | None = None, root: str = "", **more: object
) -> str:
    raw = compose_mail(
        OWN,
        "ann@example.org",
        message,
        message_id="id@example.org",
        thread=thread,
        root=root,
        files=more.get("files", ()),  # type: ignore[arg-type]
        now=SystemClock().now(),
    )
    return raw.decode("ascii")


def test_ids_are_read_without_brackets() -> None:
    found = parse_mail(
        mail("Message-ID: <c@x>\nReferences: <a@x>\n <b@x>\nIn-Reply-To: <b@x>\nSubject: S\n\nhi")
    )
    assert (found.message_id, found.references, found.answers) == ("c@x", ("a@x", "b@x"), "b@x")
    assert (found.sender, found.name, found.subject) == ("ann@example.org", "Ann", "S")


def test_folded_and_encoded_subjects_are_one_line() -> None:
    found = parse_mail(
        mail("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n =?iso-8859-1?q?_aus_K=F6ln?=\n\nhi")
    )
    assert found.subject == "Grüße aus Köln"


def test_a_charset_that_does_not_fit_is_read_anyway() -> None:
    head = b"Content-Type: text/plain; charset=us-ascii\n\n"
    assert parse_mail(mail(head + "Grüße".encode())).text == "Grüße"
    assert parse_mail(mail(head + b"Gr\xfc\xdfe")).text == "Grüße"


def test_the_plain_text_is_preferred_and_html_taken_when_there_is_none() -> None:
    both = EmailMessage()
    both["From"] = "ann@example.org"
    both.set_content("plain")
    both.add_alternative("<p>rich</p>", subtype="html")
    assert parse_mail(parse_bytes(both.as_bytes())).text == "plain"
    both = EmailMessage()
    both["From"] = "ann@example.org"
    both.set_content("\n")
    both.add_alternative("<p>rich</p>", subtype="html")
    assert parse_mail(parse_bytes(both.as_bytes())).text == "rich"


def test_a_forwarded_mail_keeps_what_it_quotes() -> None:
    found = parse_mail(mail("Subject: Fwd: x\n\nsee\n\nOn 1.2.2026, Bob wrote:\n> important"))
    assert "important" in found.text


def test_attachments_are_numbered_and_found_again() -> None:
    message = EmailMessage()
    message["From"] = "ann@example.org"
    message.set_content("two files")
    message.add_attachment(b"one", maintype="application", subtype="pdf", filename="a.pdf")
    inner = EmailMessage()
    inner["Subject"] = "inner"
    inner.set_content("the mail inside")
    message.add_attachment(inner)
    raw = parse_bytes(message.as_bytes())
    found = parse_mail(raw)
    assert [(each.name, each.mime) for each in found.attachments] == [
        ("a.pdf", "application/pdf"),
        ("mail.eml", "message/rfc822"),
    ]
    assert found.text == "two files"
    assert attachment_content(raw, found.attachments[0].number) == b"one"
    assert b"the mail inside" in (attachment_content(raw, found.attachments[1].number) or b"")
    assert attachment_content(raw, 99) is None


def test_a_mail_with_thousands_of_parts_is_read_in_part() -> None:
    parts = "".join(f"--b\nContent-Type: image/png\n\n{n}\n" for n in range(3000))
    found = parse_mail(mail(f"Content-Type: multipart/mixed; boundary=b\n\n{parts}--b--\n"))
    assert len(found.attachments) <= 200


def test_a_line_break_in_a_subject_adds_no_header() -> None:
    raw = sent(OutgoingMessage("hi", subject="a\r\nBcc: eve@evil.org\r\n\r\nbody"))
    assert "\r\nBcc" not in raw
    assert "Subject: a Bcc: eve@evil.org body" in raw


def test_a_hostile_thread_adds_no_header() -> None:
    thread = MailThread("ann@example.org", "r@x", "S\r\nBcc: e@e", ("r@x", "a b\r\nBcc: e@e"))
    assert "\r\nBcc" not in sent(OutgoingMessage("hi"), thread, "r@x")


def test_long_lines_are_made_short_for_the_wire() -> None:
    raw = sent(OutgoingMessage("x" * 5000 + "\n.\n" + "ü" * 500))
    assert max(len(line) for line in raw.split("\r\n")) <= 998
    assert raw.isascii()


def test_references_grow_with_the_thread() -> None:
    thread = MailThread("ann@example.org", "a@x", "Garden", ("a@x", "b@x"))
    raw = sent(OutgoingMessage("hi", reply_to="b@x"), thread, "a@x")
    assert "In-Reply-To: <b@x>\r\n" in raw
    assert "References: <a@x> <b@x>\r\n" in raw
    assert "Subject: Re: Garden\r\n" in raw


def test_an_answer_in_a_thread_nobody_knows_still_points_to_it() -> None:
    raw = sent(OutgoingMessage("hi"), None, "a@x")
    assert "In-Reply-To: <a@x>\r\n" in raw


def test_a_file_goes_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"data")
    media = Media("document", "Übersicht.pdf", "application/pdf", path=str(path))
    raw = sent(OutgoingMessage("see", media=(media,)), files=((media, path),))
    (part,) = parse_bytes(raw.encode()).iter_attachments()
    assert (part.get_filename(), part.get_content()) == ("Übersicht.pdf", b"data")


def test_a_message_has_the_same_id_each_time_and_no_other_has_it() -> None:
    ids = {make_message_id(OWN, key, "ann@x", root) for key in ("1", "2") for root in ("", "r@x")}
    assert len(ids) == 4
    assert make_message_id(OWN, "1", "ann@x", "") == make_message_id(OWN, "1", "ann@x", "")


def test_the_thread_of_somebody_else_is_not_entered(tmp_path: Path) -> None:
    threads = ThreadStore(tmp_path)
    ann = parse_mail(mail("Message-ID: <a@x>\nSubject: Private\n\nhi"))
    threads.save(threads.thread_of(ann))
    ours = make_message_id(OWN, "k", "ann@example.org", "a@x")
    eve = parse_bytes(f"From: eve@x.org\nMessage-ID: <e@x>\nIn-Reply-To: <{ours}>\n\nhi".encode())
    thread = threads.thread_of(parse_mail(eve))
    assert (thread.address, thread.root, thread.subject) == ("eve@x.org", ours, "")
    threads.save(thread)
    known = threads.find("ann@example.org", "a@x")
    assert known is not None
    assert known.subject == "Private"
