"""Shortens saved trajectories to a number of tokens.

The first and the last turns stay as they are. Between them, long tool results are shortened first,
the oldest first. If that is not enough, the oldest turns are replaced by a summary: one `human`
turn, written by a model, or extracted from the turns. Calls and their results stay together, and
speakers alternate as before.

Tokens are estimated from the number of bytes (`hermes.core.model`), rather too high than too low.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.context.conversation import cut_to_tokens, one_line
from hermes.core.errors import ProviderError, UsageError
from hermes.core.model import MESSAGE_TOKENS, text_tokens
from hermes.ops import TrajectoryLine, as_sharegpt, check_output, read_lines, replaced
from hermes.ops.output_files import report_unwritable
from hermes.store import Turn
from hermes.store.trajectory import THOUGHT
from hermes.util.files import write_bytes
from hermes.util.text import clean, many

Summarize = Callable[[str, int], Awaitable[str]]
"""Returns a summary of a text in about so many tokens. Raises `ProviderError`."""
Method = Literal["unchanged", "shortened", "extract", "model"]

SUMMARY_MARK = "[Summary of "
SHORT_RESULT_TOKENS = 100  #: Of a shortened tool result.
EXTRACT_CHARS = 160  #: Of a line in an extract.
AT_ONCE = 8  #: Entries that are compressed at the same time.
METRICS_SUFFIX, PART_SUFFIX = ".metrics.jsonl", ".part"

_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


class CompressorOptions(msgspec.Struct, frozen=True, kw_only=True):
    target_tokens: int = 16_000
    protect_first: int = 4  #: Turns at the beginning: system, human, gpt, tool.
    protect_last: int = 4
    summary_tokens: int = 750


class EntryMetrics(msgspec.Struct, frozen=True):
    """What was done to an entry."""

    line: int  #: In the input file.
    tokens_before: int
    tokens_after: int
    turns_before: int
    turns_after: int
    method: Method

    def over(self, target: int) -> bool:
        """Return whether the entry is still too long: its protected turns are."""
        return self.tokens_after > target


def count_tokens(turns: Iterable[Turn]) -> int:
    return sum(MESSAGE_TOKENS + text_tokens(turn["value"]) for turn in turns)


class TrajectoryCompressor:
    """Compresses trajectories. Without `summarize`, the result depends on the input only."""

    def __init__(
        self, options: CompressorOptions | None = None, summarize: Summarize | None = None
    ) -> None:
        self.options, self._summarize = options or CompressorOptions(), summarize
        least = min(self.options.protect_first, self.options.protect_last)
        if least < 1 or self.options.target_tokens < 1:
            raise UsageError("at least one turn at each end is protected, and one token is kept")

    async def compress(self, turns: Sequence[Turn]) -> tuple[list[Turn], Method]:
        """Return the turns within the target, as far as the protected ones allow that, and how
        that was done."""
        target, result = self.options.target_tokens, list(turns)
        if count_tokens(result) <= target:
            return result, "unchanged"
        first, last = self.options.protect_first, len(result) - self.options.protect_last
        shortened = _shorten_results(result, first, last, target)
        start, end = _middle(result, first, last)
        if start >= end or count_tokens(shortened) <= target:
            return shortened, "shortened" if shortened != result else "unchanged"
        cut = self._cut(shortened, start, end)
        text, method = await self._summary(result[start:cut])
        return _replace(shortened, start, cut, text), method

    def _cut(self, turns: Sequence[Turn], start: int, end: int) -> int:
        """Return the end of the turns to replace: as few as reach the target."""
        budget = self.options.target_tokens - self.options.summary_tokens - MESSAGE_TOKENS
        cuts = [i for i in range(start + 1, end + 1) if _may_start(turns, i)]
        total = count_tokens(turns)
        for cut in cuts:
            if total - count_tokens(turns[start:cut]) <= budget:
                return cut
        return cuts[-1]

    async def _summary(self, turns: Sequence[Turn]) -> tuple[str, Method]:
        heading = f"{SUMMARY_MARK}{many(len(turns), 'turn')} that are left out here]\n"
        room = max(1, self.options.summary_tokens - text_tokens(heading))
        if self._summarize is not None:
            text = "\n\n".join(f"{turn['from']}: {turn['value']}" for turn in turns)
            try:
                written = await self._summarize(text, room)
            except ProviderError:
                written = ""  # the extract is always possible
            if written.strip():
                return heading + cut_to_tokens(written.strip(), room), "model"
        return heading + cut_to_tokens("\n".join(_extract(turns)), room), "extract"


# Turns.


def _may_start(turns: Sequence[Turn], index: int) -> bool:
    """Return whether a part of the conversation may start here: not between calls and results."""
    return index >= len(turns) or turns[index]["from"] != "tool"


def _middle(turns: Sequence[Turn], first: int, last: int) -> tuple[int, int]:
    """Return the turns from `first` to `last` that may be replaced: they begin after a `gpt` or
    `tool` turn, and no call or result is left without the other."""
    start, end = min(first, len(turns)), max(0, last)
    while start < len(turns) and (
        not _may_start(turns, start) or turns[start - 1]["from"] in ("system", "human")
    ):
        start += 1
    while end > 0 and not _may_start(turns, end):
        end -= 1
    return start, max(start, end)


def _shorten_results(turns: Sequence[Turn], start: int, end: int, target: int) -> list[Turn]:
    """Return the turns with tool results shortened, the oldest first, until the target is
    reached."""
    result, total = list(turns), count_tokens(turns)
    for index in range(start, end):
        if total <= target:
            break
        turn = result[index]
        if turn["from"] != "tool":
            continue
        value = _RESPONSE.sub(_shorten_response, turn["value"])
        if text_tokens(value) < text_tokens(turn["value"]):
            total -= text_tokens(turn["value"]) - text_tokens(value)
            result[index] = {**turn, "value": value}
    return result


def _shorten_response(found: re.Match[str]) -> str:
    try:
        fields = json.loads(found[1])
    except ValueError:
        return found[0]
    if not isinstance(fields, dict):
        return found[0]
    content = fields.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if text_tokens(text) <= SHORT_RESULT_TOKENS:
        return found[0]
    short = {**fields, "content": cut_to_tokens(text, SHORT_RESULT_TOKENS)}
    return f"<tool_response>\n{json.dumps(short, ensure_ascii=False)}\n</tool_response>"


def _replace(turns: Sequence[Turn], start: int, cut: int, summary: str) -> list[Turn]:
    """Put a `human` turn in the place of turns; it is joined with a `human` turn that follows."""
    rest = list(turns[cut:])
    if rest and rest[0]["from"] == "human":
        rest[0] = {"from": "human", "value": f"{summary}\n\n{rest[0]['value']}"}
        return [*turns[:start], *rest]
    return [*turns[:start], {"from": "human", "value": summary}, *rest]


def _extract(turns: Sequence[Turn]) -> Iterator[str]:
    """Yield a line for each text, call and result."""
    for turn in turns:
        text, speaker = turn["value"], turn["from"]
        if speaker == "tool":
            for response in _RESPONSE.findall(text) or [text]:
                yield f"  result: {one_line(_content(response), EXTRACT_CHARS)}"
            continue
        thought = THOUGHT.match(text) if speaker == "gpt" else None
        words = _CALL.sub("", text[thought.end() if thought else 0 :]).strip()
        if words := words or (thought[1].strip() if thought else ""):
            name = "user" if speaker == "human" else "assistant"
            yield f"{name}: {one_line(words, EXTRACT_CHARS)}"
        for call in _CALL.findall(text):
            yield f"  call: {one_line(call, EXTRACT_CHARS)}"


def _content(response: str) -> str:
    try:
        content = json.loads(response)["content"]
    except (ValueError, KeyError, TypeError):
        return response
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


# Files.


class CompressedFile(msgspec.Struct, frozen=True):
    """The result for one file."""

    source: Path
    output: Path
    metrics: tuple[EntryMetrics, ...] = ()
    invalid: tuple[str, ...] = ()  #: Lines that are not trajectories, which are left out.
    skipped: bool = False  #: The output was there already.

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of all entries before and after."""
        return (
            sum(each.tokens_before for each in self.metrics),
            sum(each.tokens_after for each in self.metrics),
        )


def plan_files(source: Path, output: Path | None) -> list[tuple[Path, Path]]:
    """Return the input files and their output files. Of the folder of a run, only
    `trajectories.jsonl` is an input: the batches have the same lines. Raises `UsageError`."""
    if source.is_dir():
        folder = output or source.with_name(f"{source.resolve().name}_compressed")
        merged = source / "trajectories.jsonl"
        ours = (METRICS_SUFFIX, PART_SUFFIX)
        found = [merged] if merged.is_file() else sorted(source.rglob("*.jsonl"))
        files = [path for path in found if not path.name.endswith(ours)]
        if not files:
            raise UsageError(f"{source} has no .jsonl files")
        return [(path, folder / path.relative_to(source)) for path in files]
    if output is not None and output.is_dir():
        output = output / source.name
    return [(source, output or source.with_name(f"{source.stem}_compressed{source.suffix}"))]


async def compress_file(
    compressor: TrajectoryCompressor,
    source: Path,
    output: Path,
    *,
    overwrite: bool = False,
    on_entry: Callable[[EntryMetrics], None] = lambda _metrics: None,
) -> CompressedFile:
    """Write the compressed entries of `source` to `output`, and a line of metrics for each to
    `output` with `.metrics.jsonl`.

    Finished entries are kept in `output` with `.part`, so a stopped call continues there if it is
    repeated with the same input and options. Raises `UsageError` if the output exists.
    """
    with report_unwritable(output):
        output.parent.mkdir(parents=True, exist_ok=True)
    check_output(output, overwrite=overwrite)
    if output.resolve() == source.resolve():
        raise UsageError(f"{source} is input and output", hint="name another file with -o")
    part = Path(f"{output}{PART_SUFFIX}")
    metrics = _open_part(part, _identity(source, compressor.options))
    for each in metrics:
        on_entry(each)
    invalid: list[str] = []
    lines = (line for line in read_lines(source) if not _note_invalid(line, source, invalid))
    rest = islice(lines, len(metrics), None)
    while window := list(islice(rest, AT_ONCE)):
        done = await asyncio.gather(*(_compress_line(compressor, line) for line in window))
        _append(part, done)
        metrics += [each for each, _entry in done]
        for each, _entry in done:
            on_entry(each)
    _finish(part, output, metrics)
    return CompressedFile(source, output, tuple(metrics), tuple(invalid))


def _append(part: Path, done: Iterable[tuple[EntryMetrics, bytes]]) -> None:
    with report_unwritable(part), part.open("ab") as file:
        for metrics, entry in done:
            file.write(b"%s\t%s\n" % (msgspec.json.encode(metrics), entry))
        file.flush()
        os.fsync(file.fileno())


def _finish(part: Path, output: Path, metrics: Iterable[EntryMetrics]) -> None:
    with report_unwritable(output):
        listed = b"".join(msgspec.json.encode(each) + b"\n" for each in metrics)
        write_bytes(Path(f"{output}{METRICS_SUFFIX}"), listed)
        with part.open("rb") as finished, replaced(output, overwrite=True) as file:
            for line in islice(finished, 1, None):
                file.write(line.partition(b"\t")[2].decode())
        part.unlink()


async def _compress_line(
    compressor: TrajectoryCompressor, line: TrajectoryLine
) -> tuple[EntryMetrics, bytes]:
    entry = as_sharegpt(line.entry)
    turns: list[Turn] = entry["conversations"]
    short, method = await compressor.compress(turns)
    metrics = EntryMetrics(
        line.number, count_tokens(turns), count_tokens(short), len(turns), len(short), method
    )
    data: dict[str, Any] = {**entry, "conversations": short}
    return metrics, clean(json.dumps(data, ensure_ascii=False)).encode()


def _note_invalid(line: TrajectoryLine, source: Path, invalid: list[str]) -> bool:
    if line.problem:
        invalid.append(f"{source}:{line.number}: {line.problem}")
    return bool(line.problem)


def _identity(source: Path, options: CompressorOptions) -> bytes:
    """Return a line that changes with the input or the options."""
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {source}: {reason}") from error
    return msgspec.json.encode([digest, options]) + b"\n"


def _open_part(part: Path, identity: bytes) -> list[EntryMetrics]:
    """Return the metrics of the entries that an earlier call finished, and end the file after
    them. A file of other input or options is started anew."""
    done: list[EntryMetrics] = []
    with report_unwritable(part), part.open("ab+") as file:
        file.seek(0)
        size = len(identity)
        if file.readline() != identity:
            file.truncate(0)
            file.write(identity)
            return done
        for line in file:
            if not line.endswith(b"\n"):
                break  # the call was stopped while it wrote
            done.append(msgspec.json.decode(line.partition(b"\t")[0], type=EntryMetrics))
            size += len(line)
        file.truncate(size)
    return done
