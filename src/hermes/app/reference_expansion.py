"""Attaches the files, folders, changes, commits and web pages that a message refers to."""

import asyncio
import base64
import codecs
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from hermes.app.git import UserGit
from hermes.app.references import (
    WARN_SHARE,
    Attachment,
    ExpandedMessage,
    IgnoreRules,
    LineRange,
    Reference,
    ReferenceContext,
    ReferenceRefused,
    check_allowed,
    clean_url,
    expand_home,
    fenced_text,
    find_references,
    holds_secrets,
    one_line,
    possible_values,
    similar_name,
    split_lines,
)
from hermes.core.errors import HermesError, ToolError, UsageError
from hermes.core.messages import MAX_IMAGE_BYTES, Image, Text, User, image_kind
from hermes.core.model import BYTES_PER_TOKEN, IMAGE_TOKENS, text_tokens
from hermes.terminal import open_file
from hermes.tools import (
    PageFetcher,
    ToolDeps,
    fence_untrusted,
    install_page_readers,
    read_page,
    url_guard,
)
from hermes.util.concurrency import in_thread
from hermes.util.text import clean, human_size, many

log = logging.getLogger(__name__)
T = TypeVar("T")

SNIFF_BYTES = 8_192
BLOCK_BYTES = 1_048_576
DOCUMENTS = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf", b"\x7fELF")
"""First bytes of formats that are not text, even if no byte shows it."""
WIDE_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Longer ones first, because one begins with another."""
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))


class FileContent(msgspec.Struct, frozen=True):
    data: bytes
    size: int  #: Bytes of the whole file, or of the requested lines.
    lines: LineRange | None = None  #: The requested lines that exist.


async def _in_stoppable_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run `work(*arguments, stop)` in a thread; `stop` is set when the caller no longer waits."""
    stop = threading.Event()
    try:
        return await in_thread(work, *arguments, stop)
    finally:
        stop.set()


def attach_file(
    reference: Reference,
    real: str,
    lines: LineRange | None,
    context: ReferenceContext,
    stop: threading.Event,
) -> Attachment:
    """Attach a file or some of its lines. Raises `ReferenceRefused` and `OSError`."""
    if lines is not None and (lines.first < 1 or lines.last < lines.first):
        raise ReferenceRefused("lines are written as :10 or :10-20, from 1")
    with open_file(real) as file:
        state = os.fstat(file.fileno())
        start = file.read(SNIFF_BYTES)
        file.seek(0)
        if kind := image_kind(start):
            return _attach_image(reference, real, kind, file, context)
        encoding = next((name for mark, name in WIDE_BOMS.items() if start.startswith(mark)), "")
        if not encoding and is_binary(start):
            raise ReferenceRefused("it is a binary file")
        if lines is not None and not encoding:
            content = _read_lines(file, lines, context.max_bytes, stop)
        else:
            data = file.read(context.max_bytes + 1)
            size = file.seek(0, 2) if len(data) > context.max_bytes else len(data)
            content = FileContent(data[: context.max_bytes], size)
    if not encoding and b"\0" in content.data:
        raise ReferenceRefused("it is a binary file")
    text, remark = _decode(content.data, encoding)
    if lines is not None and encoding:
        chosen = text.splitlines(keepends=True)[lines.first - 1 : lines.last]
        if not chosen:
            raise _no_such_line(lines, text.count("\n") + 1)
        content = FileContent(b"", 0, LineRange(lines.first, lines.first + len(chosen) - 1))
        text = "".join(chosen)
    context.on_read(real, state)
    detail = many(text.count("\n") + (not text.endswith("\n") and bool(text)), "line")
    if content.lines is not None:
        first, last = content.lines.first, content.lines.last
        detail = f"line {first}" if first == last else f"lines {first}-{last}"
    return Attachment(
        key=f"file {real} {lines}",
        written=reference.written,
        detail=detail,
        text=fenced_text(context.redact(clean(text)), Path(real).suffix) if text else "[empty]",
        warnings=(f"{reference.written}: {remark}",) if remark else (),
        size=content.size if content.size > len(content.data) else 0,
    )


def is_binary(start: bytes) -> bool:
    """Return whether the first bytes of a file are a document, or contain control characters."""
    if start.startswith(DOCUMENTS) or b"\0" in start:
        return True
    return len(start) - len(start.translate(None, _CONTROL)) > len(start) // 10


def _attach_image(
    reference: Reference, real: str, kind: str, file: BinaryIO, context: ReferenceContext
) -> Attachment:
    if not context.images:
        raise ReferenceRefused("the model does not see images")
    data = file.read(MAX_IMAGE_BYTES + 1)
    if len(data) > MAX_IMAGE_BYTES:
        raise ReferenceRefused(f"the image has more than {human_size(MAX_IMAGE_BYTES)}")
    image = Image(f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}")
    detail, text = f"{kind}, {human_size(len(data))}", "[the image is part of this message]"
    return Attachment(f"file {real} None", reference.written, detail, text, image)


def _read_lines(file: BinaryIO, wanted: LineRange, most: int, stop: threading.Event) -> FileContent:
    """Read to the last requested line and keep at most `most` bytes."""
    kept = bytearray()
    size, number, begun = 0, 1, False
    while number <= wanted.last and (piece := file.readline(BLOCK_BYTES)):
        if stop.is_set():
            raise ReferenceRefused("stopped")
        if number >= wanted.first:
            size += len(piece)
            kept += piece[: most - len(kept)]
            if size > most:
                break
        begun = not piece.endswith(b"\n")
        number += not begun
    last = number if begun else number - 1
    if not size:
        raise _no_such_line(wanted, last)
    return FileContent(bytes(kept), size, LineRange(wanted.first, last))


def _no_such_line(wanted: LineRange, last: int) -> ReferenceRefused:
    return ReferenceRefused(f"there is no line {wanted.first}: it has {many(last, 'line')}")


def _decode(data: bytes, encoding: str) -> tuple[str, str]:
    """Return the text, and a remark about its encoding for the user."""
    if encoding:
        return data.decode(encoding, "replace"), ""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # where the reading stopped
            return data[: error.start].decode("utf-8"), ""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if sum(char > "\x7f" for char in text) > 2 * bad:
        return text, "some of it is not UTF-8 and is shown as \ufffd"
    return data.decode("cp1252", "replace"), "it is not UTF-8 and was read as Windows-1252"


MAX_ENTRIES = 200
MAX_SCANNED_ENTRIES = 20_000  #: Entries of one folder.


def attach_folder(
    reference: Reference, real: str, context: ReferenceContext, stop: threading.Event
) -> Attachment:
    """Attach the list of paths below a folder. Raises `ReferenceRefused` and `OSError`."""
    entries, more = list_paths(real, stop)
    number = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    detail = f"the first {number}" if more else number
    text = fenced_text(context.redact("\n".join(entries))) if entries else "[empty]"
    return Attachment(f"folder {real}", reference.written, detail, text)


def list_paths(root: str, stop: threading.Event) -> tuple[list[str], bool]:
    """Return a line for each path below `root`, sorted, and whether there are more.

    Level by level, so that deep paths are left out first. Ignored and secret files are not listed,
    links are not followed. Raises `OSError` if `root` cannot be read.
    """
    ignoring = IgnoreRules(root)
    found: list[tuple[str, str]] = []
    waiting, more = deque([""]), False
    while waiting:
        if stop.is_set():
            raise ReferenceRefused("stopped")
        inside = waiting.popleft()
        try:
            with os.scandir(os.path.join(root, inside)) as scan:  # noqa: PTH118 - thousands of them
                entries = sorted(islice(scan, MAX_SCANNED_ENTRIES), key=lambda entry: entry.name)
        except OSError:
            if not inside:
                raise
            continue  # only its name is shown
        for entry in entries:
            path = inside + entry.name
            folder = entry.is_dir(follow_symlinks=False)
            secret = entry.name == ".git" or holds_secrets((entry.name.casefold(),))
            if secret or ignoring.ignores(entry.path, is_folder=folder):
                continue
            if len(found) == MAX_ENTRIES:
                waiting.clear()
                more = True
                break
            found.append((path, _path_line(path, entry, folder)))
            if folder:
                waiting.append(f"{path}/")
    found.sort(key=lambda item: item[0].split("/"))
    return [line for _path, line in found], more


def _path_line(path: str, entry: "os.DirEntry[str]", folder: bool) -> str:
    if folder:
        return f"{one_line(path)}/"
    if entry.is_symlink():
        return f"{one_line(path)} (link)"
    try:
        size = human_size(entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return one_line(path)
    return f"{one_line(path)}  {size}"


MAX_COMMITS = 10
_PATCH = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--submodule=short",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_HEADER = re.compile(r"^(?=diff --)", re.MULTILINE)
_BETWEEN = re.compile(r'[\s/"]+')
OMITTED = "[left out: keys, passwords and shell settings are not attached]\n"


async def attach_changes(reference: Reference, context: ReferenceContext) -> Attachment:
    """Attach a diff or the latest commits. Raises `ReferenceRefused` and `GitCommandFailed`."""
    match reference.kind:
        case "diff":
            what, nothing = ["diff", *_PATCH], "there are no changes that are not staged"
        case "staged":
            what, nothing = ["diff", "--cached", *_PATCH], "nothing is staged"
        case _:
            counts = [int(each) for each in possible_values(reference) if each.isdecimal()]
            count = next((each for each in counts if 1 <= each <= MAX_COMMITS), 0)
            if not count:
                raise ReferenceRefused(
                    f"a number of commits from 1 to {MAX_COMMITS} is needed, as in @git:3"
                )
            what = ["log", f"-n{count}", "-p", "--format=medium", "--no-show-signature", *_PATCH]
            nothing = "there are no commits"
    git = UserGit(context.folder)
    if not await git.line("rev-parse", "--git-dir"):
        raise ReferenceRefused("this folder is not in a git repository")
    if what[0] == "log" and not await git.line("rev-parse", "--verify", "--quiet", "HEAD"):
        raise ReferenceRefused(nothing)
    result = await git.run(*what, most=context.max_bytes)
    if not result.output:
        raise ReferenceRefused(nothing)
    text = await in_thread(lambda: context.redact(clean(without_secrets(result.text))))
    detail, size = many(text.count("\n"), "line"), len(result.output) + 1 if result.cut else 0
    text = fenced_text(text, ".diff")
    return Attachment(" ".join(what), reference.written, detail, text, size=size)


def without_secrets(patch: str) -> str:
    """Return a patch without the files that must not be attached."""

    def clean_section(section: str) -> str:
        header = section.partition("\n")[0]
        parts = tuple(part for part in _BETWEEN.split(header.casefold()) if part)
        if not header.startswith("diff --") or not holds_secrets(parts):
            return section
        # In a log the next commit follows the patch; it stays.
        after = re.search(r"^commit [0-9a-f]{40,64}\b", section, re.MULTILINE)
        return f"{header}\n{OMITTED}{section[after.start() :] if after else ''}"

    return "".join(map(clean_section, _HEADER.split(patch)))


HEADING = "--- Attached Context ---"
FILE_NAME = re.compile(r"(\.{0,2}|~)/|.*\w\.[A-Za-z]\w*(:\d+(-\d+)?)?[.,;:?!)]*$")
"""A bare reference that looks like a file, and not like a person or a package."""
MAX_REFERENCES = 50
MAX_CONCURRENT = 8
PAGE_SECONDS = 60.0


def attach_texts(message: User, texts: Sequence[str]) -> User:
    """Return the message with further context after what the user wrote."""
    return User((*message.parts, Text("\n\n".join(("", HEADING, *texts))))) if texts else message


def typed_text(text: str) -> str:
    """Return what the user wrote of a message, without attached context."""
    return text.partition(f"\n\n{HEADING}\n\n")[0].rstrip("\n")


async def expand_references(text: str, context: ReferenceContext) -> ExpandedMessage:
    """Return the message for the model. A reference that cannot be attached becomes a warning.

    Raises `UsageError` if the attachments take more than half of the context length.
    """
    # A bare name that does not exist is ordinary text, and dots alone belong to the sentence.
    found, missing = [], []
    for each in find_references(text):
        if each.kind != "bare" or (re.search(r"\w", each.value) and _find_path(each, context)):
            found.append(each)
        elif re.search(r"\w", each.value) and FILE_NAME.match(each.value):
            missing.append(f"{one_line(each.written)}: there is no such file, so none is attached")
    if not found:
        return ExpandedMessage(text, warnings=tuple(missing))
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def attach(reference: Reference) -> Attachment | str:
        async with slots:
            return await _attach(reference, context)

    results = await asyncio.gather(*map(attach, found[:MAX_REFERENCES]))
    attached = list({each.key: each for each in results if isinstance(each, Attachment)}.values())
    warnings = [*missing, *(each for each in results if isinstance(each, str))]
    warnings += [warning for each in attached for warning in each.warnings]
    if len(found) > MAX_REFERENCES:
        warnings.append(f"only the first {MAX_REFERENCES} references were looked at")
    if not attached:
        return ExpandedMessage(text, warnings=tuple(warnings))
    tokens = _count_tokens(attached, context, warnings)
    blocks = [_block(each) for each in attached]
    return ExpandedMessage(
        "\n\n".join([text, HEADING, *blocks]),
        tuple(each.image for each in attached if each.image),
        tuple(warnings),
        tokens,
    )


def _count_tokens(
    attached: Sequence[Attachment], context: ReferenceContext, warnings: list[str]
) -> int:
    """Return the tokens of the attachments and add a warning for many. Raises `UsageError`."""
    weights = [
        max(text_tokens(_block(each)), -(-each.size // BYTES_PER_TOKEN))
        + (IMAGE_TOKENS if each.image else 0)
        for each in attached
    ]
    tokens = sum(weights)
    if tokens > context.max_tokens:
        largest = one_line(attached[weights.index(max(weights))].written)
        many = "more than" if any(each.size for each in attached) else "about"
        raise UsageError(
            f"what is attached has {many} {tokens:,} tokens; the limit is {context.max_tokens:,}, "
            "half of what the model can take in",
            hint=f"the largest is {largest}; attach some lines, as in @file:path:1-200, or let the "
            "agent read it",
        )
    if tokens > context.context_length * WARN_SHARE:
        share = 100 * tokens // context.context_length
        warnings.append(
            f"about {tokens:,} tokens are attached, {share} % of what the model can take in"
        )
    return tokens


def _block(attached: Attachment) -> str:
    return f"{one_line(attached.written)} ({attached.detail})\n{attached.text}"


async def _attach(reference: Reference, context: ReferenceContext) -> Attachment | str:
    """Return the attachment, or the reason why there is none."""
    try:
        match reference.kind:
            case "file" | "folder" | "bare":
                return await _attach_path(reference, context)
            case "url":
                return await _attach_page(reference, context)
            case "diff" | "staged" | "git":
                return await attach_changes(reference, context)
    except ReferenceRefused as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"{one_line(reference.written)}: {error}{hint}"
    except HermesError as error:  # its hint is meant for a model
        return f"{one_line(reference.written)}: {error}"
    except OSError as error:
        return f"{one_line(reference.written)}: {(error.strerror or str(error)).lower()}"


async def _attach_path(reference: Reference, context: ReferenceContext) -> Attachment:
    reference, path, lines = _find_path(reference, context) or (reference, reference.value, None)
    real = check_allowed(path, context.folder, context.guard)
    if not os.path.lexists(real):
        near = await in_thread(similar_name, path, context.folder, context.guard)
        hint = f"did you mean {near}?" if near else ""
        raise ReferenceRefused("there is no such file or folder", hint=hint)
    if os.path.isdir(real):  # noqa: PTH112 - answers False where Path raises
        return await _in_stoppable_thread(attach_folder, reference, real, context)
    if reference.kind == "folder":
        raise ReferenceRefused("it is not a folder")
    return await _in_stoppable_thread(attach_file, reference, real, lines, context)


def _find_path(
    reference: Reference, context: ReferenceContext
) -> tuple[Reference, str, LineRange | None] | None:
    """Return the first spelling that exists, its path and the requested lines."""
    for value in possible_values(reference):
        for path, lines in ((value, None), split_lines(value)):
            if os.path.lexists(context.folder / expand_home(path, context.guard)):
                return reference.shorten(value), path, lines
    return None


async def _attach_page(reference: Reference, context: ReferenceContext) -> Attachment:
    if context.fetch is None:
        raise ReferenceRefused("pages cannot be fetched here")
    if not reference.quoted:
        reference = reference.shorten(clean_url(reference.value))
    url = reference.value
    if "://" not in url:
        url = f"https://{url}"
    try:
        async with asyncio.timeout(PAGE_SECONDS):
            page = await context.fetch(url)
    except TimeoutError as error:
        raise ReferenceRefused(f"it was not there after {PAGE_SECONDS:g} seconds") from error
    text = await in_thread(context.redact, clean(page))
    return Attachment(
        f"url {url}", reference.written, "web page", fence_untrusted(text, one_line(url))
    )


async def fetch_page(url: str, deps: ToolDeps) -> str:
    """Return the text of a page at a public address, also after redirects. Raises `ToolError`."""
    if deps.settings.security.install_packages:
        await install_page_readers(log.info)
    reading = await read_page(await PageFetcher(url_guard(deps)).fetch(url))
    if not reading.text:
        raise ToolError("the page has no text in it; it may need JavaScript")
    notes = "".join(f"[{note}]\n" for note in reading.notes)
    title = "" if reading.text.lstrip("# ").startswith(reading.title) else f"# {reading.title}\n\n"
    return f"{notes}{title}{reading.text}"
