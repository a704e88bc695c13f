"""Measure how well past conversations and facts are found.

    python -m bench.recall [--url POSTGRES] [--model NAME --models FOLDER] [--missed]

Stores the conversations and facts of tests/recall and asks its questions. A hit is the right
conversation or fact among the first five. *tool* is the agent's `session_search`, *command* is
`hermes sessions search`; *search* and *before a turn* are the local memory provider. `--model` adds
a column in which an embedded model of that name suggests other words where little is found; the
folder has its weights.
"""

import argparse
import asyncio
import io
import json
import random
import re
import sys
import tempfile
import time
import tomllib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from hermes.app import App
from hermes.cli.context import Cli, ProgressLine, run_command
from hermes.cli.main import find_entry
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.cancel import CancelToken
from hermes.core.tool import ToolContext
from hermes.sdk.testing.plugin import tool_deps
from hermes.store import SearchRequest, SessionStore, open_store
from hermes.tools import ToolRegistry, discover_builtin, suggest_words
from hermes_plugins.memory.holographic import HolographicProvider

DATA = Path(__file__).parents[1] / "tests" / "recall"
TOP = 5
DAY = 86_400.0
Counts = dict[str, tuple[int, int]]  #: Hits and questions of each kind.


def read_data(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text("utf-8"))


async def fill(store: SessionStore) -> None:
    """Store all conversations, in an order and at times that are always the same."""
    data, shuffle = read_data("conversations"), random.Random(7)
    talks = [(one["id"], one["say"]) for one in data["topic"]]
    talks += [(f"filler-{n}", line.split(" | ")) for n, line in enumerate(data["filler"]["lines"])]
    shuffle.shuffle(talks)
    began = time.time() - 200 * DAY
    for number, (name, said) in enumerate(talks):
        at = began + number * 2 * DAY
        messages = [
            {"role": ("user", "assistant")[n % 2], "content": text, "timestamp": at + n}
            for n, text in enumerate(said)
        ]
        record = {"id": name, "source": "cli", "model": "m", "started_at": at, "messages": messages}
        await store.restore(record)


async def count(
    queries: dict[str, dict[str, str]],
    search: Callable[[str], Awaitable[list[str]]],
    missed: list[str],
) -> Counts:
    """Return the hits of each kind. `search` returns the names found, best first."""
    counts: Counts = {}
    for kind, pairs in queries.items():
        hits = 0
        for query, wanted in pairs.items():
            found = (await search(query))[:TOP]
            hits += any(wanted in one for one in found)
            if not any(wanted in one for one in found):
                missed.append(f"{kind}: {query!r} gives {found}, not {wanted}")
        counts[kind] = hits, len(pairs)
    return counts


def agent_tool(store: SessionStore, **parts: Any) -> Callable[[str], Awaitable[list[str]]]:
    """Return the search of the tool `session_search`."""
    registry = ToolRegistry()
    discover_builtin(registry)
    entry = registry.get("session_search")
    assert entry is not None
    tool = entry.make(tool_deps(sessions=store, **parts))

    async def search(query: str) -> list[str]:
        context = ToolContext("now", "call", CancelToken(), lambda _text: None)
        result = await tool.handler(context, {"query": query, "limit": TOP})
        return re.findall(r"session (\S+)$", str(result), re.MULTILINE)

    return search


def command(home: Path) -> Callable[[str], Awaitable[list[str]]]:
    """Return the search of `hermes sessions search --json`."""
    entry = find_entry("sessions")
    assert entry is not None
    parser = entry.parser()

    async def search(query: str) -> list[str]:
        cli = Cli(Home(home), io.StringIO(), io.StringIO(), io.StringIO())
        args = parser.parse_args(["search", query, "--json", "--limit", "50"])
        await asyncio.to_thread(run_command, args, cli)
        assert isinstance(cli.stdout, io.StringIO)
        hits = json.loads(cli.stdout.getvalue() or "[]")
        return list(dict.fromkeys(hit["session_id"] for hit in hits))

    return search


def facts(folder: Path) -> tuple[Counts, Counts, list[str]]:
    """Return the hits of the provider's search and of what it recalls before a turn."""
    data, missed = read_data("facts"), list[str]()
    provider = HolographicProvider()
    provider.initialize("bench", hermes_home=str(folder), platform="cli")

    def call(**arguments: Any) -> dict[str, Any]:
        return dict(json.loads(provider.handle_tool_call("fact_store", arguments)))

    for fact in data["facts"]:
        call(action="add", content=fact)

    async def search(query: str) -> list[str]:
        return [str(one) for one in call(action="search", content=query)["facts"]]

    async def recall(query: str) -> list[str]:
        return [provider.prefetch(query)]

    found = asyncio.run(count(data["queries"], search, missed))
    recalled = asyncio.run(count(data["queries"], recall, []))
    provider.shutdown()
    return found, recalled, missed


def show(title: str, columns: dict[str, Counts]) -> None:
    print(f"\n{title:<16}" + "".join(f"{name:>16}" for name in columns))
    for kind in next(iter(columns.values())):
        cells = (f"{hits}/{total}" for hits, total in (each[kind] for each in columns.values()))
        print(f"{kind:<16}" + "".join(f"{cell:>16}" for cell in cells))


async def with_model(
    store: SessionStore, home: Path, model: str, weights: Path, missed: list[str]
) -> Counts:
    """Return the hits of the search for which an embedded model suggests words."""
    home.mkdir()
    (home / "models").symlink_to(weights)
    (home / "config.yaml").write_text(f"model: {{provider: local}}\nlocal: {{model: '{model}'}}\n")
    place = Home(home)
    async with App(place, load(place, {}), ProgressLine(sys.stderr), print) as app:
        suggest = partial(
            suggest_words,
            await app.auxiliary(""),
            app.loaded.settings.auxiliary.session_search,
        )

        async def search(query: str) -> list[str]:
            request = SearchRequest(query, limit=50, tolerant=True)
            hits = await store.search(request, suggest)
            return list(dict.fromkeys(hit.session_id for hit in hits))

        return await count(read_data("conversations")["queries"], search, missed)


async def conversations(
    home: Path, url: str = "", model: str = "", weights: Path = Path()
) -> tuple[dict[str, Counts], list[str]]:
    store, missed = open_store(url, home / "state.db"), list[str]()
    queries = read_data("conversations")["queries"]
    try:
        await fill(store)
        columns = {"tool": await count(queries, agent_tool(store), missed)}
        if not url:
            columns["command"] = await count(queries, command(home), missed)
        if model:
            columns[model] = await with_model(store, home / "model", model, weights, missed)
    finally:
        store.close()
    return columns, missed


def main() -> None:
    parser = argparse.ArgumentParser(description="measure how well the past is found")
    parser.add_argument("--url", default="", help="an empty PostgreSQL database for the sessions")
    parser.add_argument("--model", default="", help="an embedded model that suggests words")
    parser.add_argument("--models", type=Path, default=Path("models"), help="its folder")
    parser.add_argument("--missed", action="store_true", help="print what was not found")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        columns, missed = asyncio.run(
            conversations(home, args.url, args.model, args.models.resolve())
        )
        show("conversations", columns)
        found, recalled, lost = facts(home)
        show("facts", {"search": found, "before a turn": recalled})
    if args.missed:
        print(*missed, *lost, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
