"""What a server sends: which kind of document, and its text in which encoding."""

import codecs
import re
from typing import Literal

Kind = Literal["html", "pdf", "text", "unknown"]

KINDS: dict[str, Kind] = {
    "": "unknown",
    "application/octet-stream": "unknown",
    "binary/octet-stream": "unknown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "application/json": "text",
    "application/javascript": "text",
    "application/x-javascript": "text",
    "application/xml": "text",
    "application/yaml": "text",
    "application/x-yaml": "text",
    "application/toml": "text",
    "application/sql": "text",
    "application/x-sh": "text",
    "application/x-ndjson": "text",
    "application/graphql": "text",
    "image/svg+xml": "text",
}

_META = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE
)
_HTML = re.compile(
    rb"^\s*(<!--.{0,2000}?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_META_WITHIN = 4_096
_SNIFFED = 4_096

BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

_SAME_AS = {
    "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252",
    "iso8859-1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932",
    "sjis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949",
    "big5": "big5hkscs", "utf8": "utf-8", "utf-16": "utf-16-le", "macintosh": "mac-roman",
}  # fmt: skip
"""Labels that browsers read as a wider encoding than their name says."""

_KNOWN = re.compile(
    r"utf-8|utf-16-?[lb]e|windows-?125[0-8]|cp125[0-8]|iso-8859-\d{1,2}|koi8-[ru]|gb18030|big5hkscs"
    r"|euc-jp|iso-2022-jp|cp932|cp949|cp874|mac-roman|ibm866|cp866"
)
"""Encodings of web pages. Python has others that run code of their own over the text."""


def kind_of(media_type: str) -> Kind | None:
    """The kind of a `Content-Type`; None when it is nothing to read."""
    plain = media_type.partition(";")[0].strip().lower()
    known = KINDS.get(plain)
    if known is None and (plain.startswith("text/") or plain.endswith(("+json", "+xml", "+yaml"))):
        return "text"
    return known


def sniffed(kind: Kind, data: bytes) -> Kind | None:
    """The kind by what the data looks like, where the server did not say or said wrong."""
    start = data[:_SNIFFED]
    if b"%PDF-" in start[:1_024]:
        return "pdf"
    if kind == "pdf":
        return None
    if kind == "text" and _HTML.match(start.removeprefix(codecs.BOM_UTF8)):
        return "html"
    if kind != "unknown":
        return kind
    if b"\0" in start and not start.startswith(tuple(BOMS)):
        return None
    return "html" if _HTML.match(start) else "text"


def decoded(data: bytes, declared: str, kind: Kind) -> str:
    """The text of `data`: by its byte order mark, the server's word, the page's own, a guess."""
    for mark, name in BOMS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    meta = _META.search(data[:_META_WITHIN]) if kind == "html" else None
    for label in (declared, meta[1].decode("ascii") if meta else ""):
        if name := _encoding(label):
            return data.decode(name, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        only_cut = error.reason == "unexpected end of data"
        return data.decode("utf-8" if only_cut else "cp1252", "replace")


def _encoding(label: str) -> str:
    plain = label.strip().strip("\"'").lower()
    name = _SAME_AS.get(plain, plain)
    return name if _KNOWN.fullmatch(name) else ""
