"""ByteRover, by its program `brv` on this machine (docs.byterover.dev, and the curate protocol of
the program).

Each user has a project in `<home>/byterover/`, so no key is needed; to use the cloud, run
`brv login` and `brv vc push` there. `brv search` searches without a model and `brv curate` stores:
newer versions expect the caller to write the topic, which happens here without a model. The
documentation does not show the output of `brv search --format json`; any list of objects with an
excerpt is accepted. There is no command that deletes a topic.
"""

import html
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes.sdk import Home, PluginContext, child_environment, search_path
from hermes.sdk.memory import (
    SLOW_SECONDS,
    WRITE_SECONDS,
    Dict,
    Dicts,
    ServiceCircuitBreaker,
    ServiceError,
    ServiceInfo,
    ServiceProvider,
    ServiceScope,
    ServiceTool,
    redact_outgoing,
    safe_id,
    store_tool,
    to_entry,
)

PROGRAM = "brv"
TEXTS = ("rendered_md", "excerpt", "snippet", "content", "title")
MOST_PRINTED = 1024**2
_SUMMARY = 120
_SAID = 160
_NOT_SNAKE = re.compile(r"[^a-z0-9]+")

QUERY = ServiceTool(
    "brv_query",
    "Ask what is known of the user.",
    "query",
    lambda service, query: service.query(query),
)


class ByteRoverProvider(ServiceProvider):
    info = ServiceInfo("byterover", "ByteRover", (QUERY, store_tool("brv_curate")))

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path()
        self._circuit = ServiceCircuitBreaker("ByteRover")

    def is_available(self) -> bool:
        return _program() is not None

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:  # noqa: ARG002 - as the others
        self._folder = home.root / "byterover" / scope.flat

    def search(self, query: str, limit: int) -> Dicts:
        data = self._run("search", query, "--limit", str(limit), seconds=self.options.timeout)
        hits = (to_entry(each, *TEXTS, name="path") for each in _objects(data))
        return [hit for hit in hits if hit["text"]]

    def query(self, question: str) -> Dict:
        """Return an answer (older versions) or a list of matching topics (newer ones)."""
        data = self._run("query", question, seconds=SLOW_SECONDS)
        said = data.get("result") or data.get("content")
        if isinstance(said, str):
            return {"answer": said}
        return {"found": [to_entry(each, *TEXTS)["text"] for each in _objects(data)]}

    def store_turn(self, session: str, user: str, assistant: str) -> None:
        said = {"User": user, "Assistant": assistant}
        paragraphs = [f"{who}: {text}" for who, text in said.items() if text]
        self._curate(f"conversations/{_snake(session)}", user or assistant, paragraphs)

    def store_fact(self, text: str) -> None:
        self._curate("notes", text, [text])

    def _curate(self, path: str, summary: str, paragraphs: list[str]) -> None:
        data = self._run("curate", "\n".join(paragraphs), seconds=WRITE_SECONDS)
        if data.get("status") == "needs-llm-step":
            topic = _topic(f"{path}/t{time.time_ns()}", summary, paragraphs)
            session = safe_id(str(data.get("sessionId")))
            answer = ("--session", session, "--response", topic)
            data = self._run("curate", "", *answer, seconds=WRITE_SECONDS)
        if data.get("status") in ("needs-llm-step", "failed", "error"):
            raise ServiceError(f"{PROGRAM} curate did not keep it ({data['status']})")

    def _run(self, verb: str, text: str, *options: str, seconds: float) -> Dict:
        # A text that begins with a dash would be parsed as an option.
        words = (f" {text}" if text.startswith("-") else text,) if text else ()
        command = (verb, *words, *options, "--format", "json")
        return self._circuit.run(lambda: _run_program(self._folder, command, seconds))


def _program() -> str | None:
    return shutil.which(PROGRAM, path=search_path())


def _run_program(folder: Path, command: tuple[str, ...], seconds: float) -> Dict:
    """Run `brv` and return `data` of its JSON output. Raises `ServiceError`."""
    what = f"{PROGRAM} {command[0]}"
    code, printed = _program_output(folder, command, seconds)
    answer = next(_envelopes(printed), None)
    if answer is None:
        raise ServiceError(f"{what} ended with code {code} and no answer")
    data = answer.get("data")
    if answer.get("success") is False or not isinstance(data, dict):
        keys = ("error", "message", "status")
        said = to_entry(data, *keys)["text"] if isinstance(data, dict) else ""
        raise ServiceError(
            f"{what} failed: {redact_outgoing(' '.join(said.split()), _SAID) or code}"
        )
    return data


def _program_output(folder: Path, command: tuple[str, ...], seconds: float) -> tuple[int, bytes]:
    """Return the exit code and the output.

    The output goes to a file, because a background process of the program would keep a pipe open.
    """
    program = _program()
    if program is None:
        hint = "npm install -g byterover-cli"
        raise ServiceError(f"the program {PROGRAM} is not there", hint=hint)
    with tempfile.TemporaryFile() as output:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            done = subprocess.run(
                [program, *command],
                cwd=folder,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            problem = f"{PROGRAM} {command[0]} did not end within {seconds:g} s"
            raise ServiceError(problem) from error
        except OSError as error:
            raise ServiceError(f"{PROGRAM} cannot be started ({error.strerror})") from error
        output.seek(0)
        return done.returncode, output.read(MOST_PRINTED)


def _envelopes(printed: bytes) -> Iterator[Dict]:
    """Yield the JSON objects of the output, last first: the whole output or one per line."""
    for text in (printed, *reversed(printed.splitlines())):
        try:
            answer = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(answer, dict):
            yield answer


def _objects(data: Dict) -> Dicts:
    """Return the first list of objects in an answer."""
    lists: Iterator[Any] = (value for value in data.values() if isinstance(value, list))
    return [each for each in next(lists, ()) if isinstance(each, dict)]


def _topic(path: str, summary: str, paragraphs: list[str]) -> str:
    """Return the input of `brv curate --response`: a topic as HTML, and its metadata."""
    line = " ".join(summary.split())[:_SUMMARY]
    title = html.escape(line)
    body = "".join(f"<p>{html.escape(text, quote=False)}</p>" for text in paragraphs)
    topic = (
        f'<bv-topic path="{path}" title="{title}" summary="{title}">'
        f"<bv-highlights>{body}</bv-highlights></bv-topic>"
    )
    meta = {"type": "ADD", "impact": "low", "reason": "Said in a conversation.", "summary": line}
    return json.dumps({"html": topic, "meta": meta}, ensure_ascii=False)


def _snake(text: str) -> str:
    return _NOT_SNAKE.sub("_", text.lower()).strip("_") or "x"


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(ByteRoverProvider())
