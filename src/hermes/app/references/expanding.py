"""From what the user typed to what the model gets: the text, and below it what it refers to."""

import asyncio
import os
import re
from collections.abc import Sequence

from hermes.app.references.blocks import HEADING, one_line
from hermes.app.references.changes import attach_changes
from hermes.app.references.desk import WARN_SHARE, Attached, Desk, Expanded, NotAttached
from hermes.app.references.files import attach_file
from hermes.app.references.folders import attach_folder
from hermes.app.references.places import allowed, at_home
from hermes.app.references.similar import similar_name
from hermes.app.references.written import (
    Lines,
    Reference,
    address,
    references,
    spellings,
    with_lines,
)
from hermes.core.errors import HermesError, UsageError
from hermes.core.tokens import BYTES_PER_TOKEN, IMAGE_TOKENS, text_tokens
from hermes.tools.web_pages import fence_untrusted
from hermes.util.text import clean
from hermes.util.threads import in_thread

MOST_REFERENCES = 50
AT_ONCE = 8
PAGE_SECONDS = 60.0


async def expand(text: str, desk: Desk) -> Expanded:
    """The message for the model. What cannot be attached is a warning, and the rest goes on.

    Raises `UsageError` when what is attached takes more than half of the context length.
    """
    # Most of what looks like a path in a long text names nothing.
    found = [each for each in references(text) if each.kind != "bare" or _is_path(each, desk)]
    if not found:
        return Expanded(text)
    seats = asyncio.Semaphore(AT_ONCE)

    async def seated(reference: Reference) -> Attached | str:
        async with seats:
            return await _attached(reference, desk)

    results = await asyncio.gather(*(seated(each) for each in found[:MOST_REFERENCES]))
    attached = list({each.key: each for each in results if isinstance(each, Attached)}.values())
    warnings = [each for each in results if isinstance(each, str)]
    warnings += [warning for each in attached for warning in each.warnings]
    if len(found) > MOST_REFERENCES:
        warnings.append(f"only the first {MOST_REFERENCES} references were looked at")
    if not attached:
        return Expanded(text, warnings=tuple(warnings))
    tokens = _weighed(attached, desk, warnings)
    blocks = [_block(each) for each in attached]
    return Expanded(
        "\n\n".join([text, HEADING, *blocks]),
        tuple(each.image for each in attached if each.image),
        tuple(warnings),
        tokens,
    )


def _weighed(attached: Sequence[Attached], desk: Desk, warnings: list[str]) -> int:
    """How many tokens are attached. Raises `UsageError` when they are too many."""
    weights = [_tokens(each) for each in attached]
    tokens = sum(weights)
    if tokens > desk.most_tokens:
        largest = one_line(attached[weights.index(max(weights))].written)
        many = "more than" if any(each.size for each in attached) else "about"
        raise UsageError(
            f"what is attached has {many} {tokens:,} tokens; the limit is {desk.most_tokens:,}, "
            "half of what the model can take in",
            hint=f"the largest is {largest}; attach some lines, as in @file:path:1-200, or let the "
            "agent read it",
        )
    if tokens > desk.context_length * WARN_SHARE:
        share = 100 * tokens // desk.context_length
        warnings.append(
            f"about {tokens:,} tokens are attached, {share} % of what the model can take in"
        )
    return tokens


def _block(attached: Attached) -> str:
    """The reference as it was typed, what it brought, and that."""
    return f"{one_line(attached.written)} ({attached.detail})\n{attached.text}"


def _tokens(attached: Attached) -> int:
    known = text_tokens(_block(attached))
    unread = -(-attached.size // BYTES_PER_TOKEN)
    return max(known, unread) + (IMAGE_TOKENS if attached.image else 0)


async def _attached(reference: Reference, desk: Desk) -> Attached | str:
    """What it brings, or why it brings nothing."""
    try:
        match reference.kind:
            case "file" | "folder" | "bare":
                return await _path(reference, desk)
            case "url":
                return await _page(reference, desk)
            case "diff" | "staged" | "git":
                return await attach_changes(reference, desk)
    except NotAttached as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"{one_line(reference.written)}: {error}{hint}"
    except HermesError as error:  # its hint is meant for a model
        return f"{one_line(reference.written)}: {error}"
    except OSError as error:
        return f"{one_line(reference.written)}: {(error.strerror or str(error)).lower()}"


async def _path(reference: Reference, desk: Desk) -> Attached:
    reference, path, lines = _named(reference, desk) or (reference, reference.value, None)
    real = allowed(path, desk.folder, desk.guard)
    if not os.path.lexists(real):
        near = await in_thread(similar_name, path, desk.folder, desk.guard)
        hint = f"did you mean {near}?" if near else ""
        raise NotAttached("there is no such file or folder", hint=hint)
    if os.path.isdir(real):  # noqa: PTH112 - answers False where Path raises
        return await attach_folder(reference, real, desk)
    if reference.kind == "folder":
        raise NotAttached("it is not a folder")
    return await attach_file(reference, real, lines, desk)


def _is_path(reference: Reference, desk: Desk) -> bool:
    """Whether a bare word is one: dots alone belong to the sentence."""
    return bool(re.search(r"\w", reference.value)) and _named(reference, desk) is not None


def _named(reference: Reference, desk: Desk) -> tuple[Reference, str, Lines | None] | None:
    """The first spelling that exists, its path, and the lines that are wanted of it."""
    for value in spellings(reference):
        for path, lines in ((value, None), with_lines(value)):
            if os.path.lexists(desk.folder / at_home(path, desk.guard)):
                return reference.shorter(value), path, lines
    return None


async def _page(reference: Reference, desk: Desk) -> Attached:
    if desk.fetch is None:
        raise NotAttached("pages cannot be fetched here")
    if not reference.quoted:
        reference = reference.shorter(address(reference.value))
    url = reference.value
    if "://" not in url:
        url = f"https://{url}"
    try:
        async with asyncio.timeout(PAGE_SECONDS):
            page = await desk.fetch(url)
    except TimeoutError as error:
        raise NotAttached(f"it was not there after {PAGE_SECONDS:g} seconds") from error
    text = await in_thread(desk.redact, clean(page))
    return Attached(
        f"url {url}", reference.written, "web page", fence_untrusted(text, one_line(url))
    )
