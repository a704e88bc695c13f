"""Parsing, screening and authenticating mail."""

import tomllib
from email.message import EmailMessage
from pathlib import Path

import pytest

from hermes.sdk.platforms import Media, OutgoingMessage
from hermes.util.concurrency import SystemClock
from hermes_plugins.platforms.email.inbound import (
    attachment_content,
    check_sender,
    decode_text,
    has_too_many_parts,
    is_forwarded,
    parse_bytes,
    parse_mail,
    parse_results,
    parse_sender,
    screen_message,
    split_html,
    split_quote,
)
from hermes_plugins.platforms.email.outbound import (
    MailThread,
    ThreadStore,
    compose_mail,
    make_message_id,
)

OWN = "hermes@example.org"
CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))


def mail(text: bytes | str) -> EmailMessage:
    raw = text if isinstance(text, bytes) else text.encode()
    return parse_bytes(b"From: Ann <ann@example.org>\n" + raw)


def sent(message, thread=None, root="", **more):
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
    for plain, expected in (("plain", "plain"), ("\n", "rich")):
        both = EmailMessage()
        both["From"] = "ann@example.org"
        both.set_content(plain)
        both.add_alternative("<p>rich</p>", subtype="html")
        assert parse_mail(parse_bytes(both.as_bytes())).text == expected


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


def test_reply_in_an_unknown_thread_has_in_reply_to() -> None:
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


def test_thread_of_another_sender_is_not_joined(tmp_path: Path) -> None:
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


def test_the_new_part_is_kept() -> None:
    cases = CORPUS["quotes"]
    assert [name for name, mail, *parts in cases if split_quote(mail) != tuple(parts)] == []


def test_html_is_read_as_people_see_it() -> None:
    assert [html for html, *parts in CORPUS["html"] if split_html(html) != tuple(parts)] == []


def test_a_forwarded_mail_is_about_what_it_quotes() -> None:
    assert [
        subject for subject, is_so in CORPUS["forwarded"] if is_forwarded(subject) != is_so
    ] == []


def test_only_a_clear_sender_is_believed() -> None:
    for headers, expected in CORPUS["senders"]:
        found = parse_sender(parse_bytes(f"{headers}\nTo: {OWN}\n\nhi".encode()))[0]
        assert found == expected, headers


def test_people_get_an_answer_and_programs_and_lists_get_none() -> None:
    for kind in ("programs", "people"):
        for headers in CORPUS[kind]:
            refused = screen_message(parse_bytes(f"{headers}\n\nhi".encode()), OWN)
            assert bool(refused) is (kind == "programs"), headers


ADDRESS = "owner@example.org"
SERVER = "mx.example.net"


def verdict(*headers: str, required: object = True, server: str = SERVER) -> str:
    """Return `refused`, `guest` or `proven`."""
    text = "".join(f"Authentication-Results: {header}\n" for header in headers)
    mail = parse_bytes(f"{text}From: {ADDRESS}\n\nhi".encode())
    refused, proven = check_sender(mail, ADDRESS, required=required, server=server)  # type: ignore[arg-type]
    return "refused" if refused else "proven" if proven else "guest"


def test_only_a_proven_sender_is_believed() -> None:
    for kind, expected in (("proven", "proven"), ("unproven", "refused")):
        assert [each for each in CORPUS[kind] if verdict(each) != expected] == []


def test_only_the_topmost_word_of_our_server_counts() -> None:
    """What is below came with the mail."""
    assert verdict(f"{SERVER}; dmarc=fail", f"{SERVER}; dmarc=pass") == "refused"
    assert verdict("mx.evil.org; dmarc=fail", f"{SERVER}; dmarc=pass") == "proven"


def test_without_a_name_no_header_is_a_proof() -> None:
    assert verdict("anybody; dmarc=fail", required="auto", server="") == "refused"
    assert verdict("anybody; dmarc=pass", required="auto", server="") == "guest"
    assert verdict(required="auto", server="") == "guest"


def test_without_a_word_of_our_server_the_sender_is_not_proven() -> None:
    assert verdict(required="auto") == "guest"
    assert verdict("mx.evil.org; dmarc=pass", required="auto") == "guest"
    assert verdict(f"{SERVER}; dmarc=fail", required="auto") == "refused"
    assert verdict(required=True) == "refused"


def test_authentication_check_can_be_disabled() -> None:
    assert verdict(f"{SERVER}; dmarc=fail", required=False) == "proven"


def test_results_are_read_with_their_properties() -> None:
    name, results = parse_results(
        'a.b; spf=pass smtp.mailfrom="x y"@z; dkim=pass (2048) header.d=c'
    )
    assert name == "a.b"
    assert [(each.method, each.verdict) for each in results] == [("spf", "pass"), ("dkim", "pass")]
    assert results[1].properties == {"header.d": "c"}


MANY = 200_000
PART = b"--x\r\nContent-Type: text/plain; " + b"a=b; " * 190 + b"\r\n\r\nhi\r\n"


@pytest.mark.parametrize(
    "name", [b'"' * MANY, b"a@b.c, " * MANY, b"a " * MANY, b"=?utf-8?q?a?= " * MANY]
)
def test_endless_sender_is_screened_out(name: bytes) -> None:
    head = parse_bytes(b"From: " + name + b"<ann@example.org>\r\n\r\n")
    assert screen_message(head, "me@example.org")


def test_a_thousand_senders_are_none() -> None:
    head = parse_bytes(b"From: ann@example.org\r\n" * 1000 + b"\r\n")
    assert screen_message(head, "me@example.org")


@pytest.mark.parametrize("subject", [b"a " * MANY, b"=?punycode?q?ab-" + b"z9" * MANY + b"?="])
def test_a_subject_without_end_is_cut(subject: bytes) -> None:
    mail = parse_mail(parse_bytes(b"From: a@b.c\r\nSubject: " + subject + b"\r\n\r\nhi"))
    assert (len(mail.subject) <= 300, mail.text) == (True, "hi")


def test_headers_of_parts_are_cut_too() -> None:
    mail = b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    assert parse_mail(parse_bytes(mail + PART * 50 + b"--x--")).text == "hi"
    assert not has_too_many_parts(mail + PART * 50)
    assert has_too_many_parts(mail + PART * 1000)


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "undefined", "no-such"])
def test_unknown_charset_is_ignored(charset: str) -> None:
    assert decode_text(b"ab-z9\\n" * MANY, charset) == "ab-z9\\n" * MANY


def test_blanks_without_end_in_a_result_are_one_blank() -> None:
    head = parse_bytes(b"Authentication-Results: " + b" " * MANY + b'"\r\n\r\n')
    assert check_sender(head, "a@b.c", required="auto", server="")[0]


@pytest.mark.parametrize(
    "text",
    [
        "1" * MANY + "\n> x\n\ny",
        "_" * MANY + "x!\nFrom: a\nTo: b",
        "From: " + "a" * MANY + "\nTo: b",
    ],
)
def test_endless_lines_are_not_quote_headers(text: str) -> None:
    new, _quoted = split_quote(text)
    assert new.startswith(text[:1000])


@pytest.mark.parametrize(
    "unit",
    ["<a ", "<a b=", "<a b='", "<!--", "<", "</", "<div '&style=' ><div style='=xstyle='style='"],
)
def test_broken_html_is_read_all_the_same(unit: str) -> None:
    new, _quoted = split_html(f"<p>Hello</p>{unit * (MANY // len(unit))}")
    assert new.startswith("Hello")
