"""The local memory provider: facts in a file of the home, no service and no model needed."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.home import tilde
from hermes.core.errors import ConfigError, ToolError
from hermes.memory.holographic import tool
from hermes.memory.holographic.fact import Fact, day, id_in
from hermes.memory.holographic.facts import Facts
from hermes.memory.holographic.listening import (
    checked,
    hear,
    mirror,
    reread,
    statements_in,
    statements_of,
)
from hermes.memory.holographic.opened import Opened
from hermes.memory.holographic.options import Options, read_options, write_options
from hermes.memory.holographic.recall import recall, search, told
from hermes.memory.holographic.table import Table
from hermes.memory.holographic.vectors import Embedder, StaticEmbedder
from hermes.memory.provider import Dict, Dicts, MemoryProvider
from hermes.util.text import human_size, many

log = logging.getLogger(__name__)

FOLDER, FILE = "holographic", "memory.db"


class Holographic(MemoryProvider):
    """One for each session; several may use the file at the same time."""

    def __init__(
        self, *, now: Callable[[], float] = time.time, embedder: Embedder | None = None
    ) -> None:
        self._now, self._embedder = now, embedder
        self._session = self._user = ""
        self._options = Options()
        self._opened: Opened | None = None
        self._used: set[int] = set()

    @property
    def name(self) -> str:
        return "holographic"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = Path(kwargs["hermes_home"])
        tell = kwargs.get("tell") or log.warning
        self._session, self._user = session_id, str(kwargs.get("user_id") or "")
        self._options = read_options(home)
        self._embedder = self._embedder or _embedder(self._options.embedding_model, tell)
        self._opened = Opened(home / FOLDER / FILE, self._table, tell)

    def get_tool_schemas(self) -> Dicts:
        return [tool.SCHEMA]

    def handle_tool_call(self, name: str, args: Dict, **_kwargs: Any) -> str:
        if name != tool.NAME:
            return super().handle_tool_call(name, args)
        try:
            return self._facts.use(lambda facts: tool.answer(facts, args, self._session, checked))
        except ToolError as error:
            told = f"{error} ({error.hint})" if error.hint else str(error)
            return json.dumps({"error": told}, ensure_ascii=False)

    def get_config_schema(self) -> Dicts:
        return [
            {
                "key": "embedding_model",
                "description": "Model for search by meaning (model2vec, a folder or a name); "
                "empty for none",
                "default": "",
            }
        ]

    def save_config(self, values: Dict, hermes_home: str) -> None:
        home = Path(hermes_home)
        model = str(values.get("embedding_model") or "")
        kept = msgspec.structs.replace(read_options(home), embedding_model=model)
        write_options(home, kept)

    def prefetch(self, query: str, **_kwargs: Any) -> str:
        """The best few facts. Notes are left out: they stand in the prompt anyway."""
        if not self._facts.exists:
            return ""

        def look(facts: Facts) -> str:
            recalled = recall(facts.table, query, self._options.recall_facts)
            lines, new = told(recalled, self._options.recall_chars, self._used)
            facts.mark_used(new)  # once a session: it should not feed itself
            self._used.update(new)
            return lines

        return self._facts.use(look)

    def sync_turn(self, user: str, assistant: str, **_kwargs: Any) -> None:  # noqa: ARG002 - the user's words are the source
        if statements := statements_in(user):
            self._facts.use(lambda facts: hear(facts, statements, self._session))

    def on_session_end(self, messages: Dicts) -> None:
        if statements := statements_of(messages):
            self._facts.use(lambda facts: reread(facts, statements, self._session))

    def on_pre_compress(self, messages: Dicts) -> None:
        self.on_session_end(messages)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        self._facts.use(lambda facts: mirror(facts, action, target, content, self._session))

    def shutdown(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def summary(self) -> str:
        path = self._facts.path
        if not self._facts.exists:
            return f"no facts yet ({tilde(path)})"
        rows = self._facts.use(
            lambda facts: facts.table.query("SELECT user, count(*) FROM facts GROUP BY user")
        )
        counts: dict[str, int] = dict(rows)
        mine, others = counts.pop("", 0), sum(counts.values())
        of_others = f" and {others:,} of {many(len(counts), 'other user')}" if counts else ""
        size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
        return f"{many(mine, 'fact')} of yours{of_others}, {human_size(size)} in {tilde(path)}"

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        if not self._facts.exists:
            return []

        def look(facts: Facts) -> list[Fact]:
            if query:
                return [hit.fact for hit in search(facts.table, query, limit)]
            return facts.table.newest(limit)

        return [_entry(fact) for fact in self._facts.use(look)]

    def edit(self, entry_id: str, text: str) -> bool:
        if (number := id_in(entry_id)) is None:
            return False
        return self._facts.use(lambda facts: facts.update(number, checked(text))) is not None

    def forget(self, entry_id: str) -> bool:
        if (number := id_in(entry_id)) is None:
            return False
        return self._facts.use(lambda facts: facts.forget(number))

    @property
    def _facts(self) -> Opened:
        if self._opened is None:
            raise ConfigError("the memory provider holographic was not initialised")
        return self._opened

    def _table(self, connection: Any) -> Table:
        return Table(connection, self._user, embedder=self._embedder, now=self._now)


def _entry(fact: Fact) -> Dict:
    entry: Dict = {"id": str(fact.id), "text": fact.text, "trust": round(fact.trust, 2)}
    entry |= {"said": day(fact.confirmed), "source": fact.source}
    if fact.replaced_by:
        entry["outdated_by"] = str(fact.replaced_by)
    return entry


def _embedder(model: str, tell: Callable[[str], None]) -> Embedder | None:
    """The model for search by meaning; without it, search goes by words."""
    if not model:
        return None
    try:
        return StaticEmbedder(model)
    except ImportError:
        tell("facts are searched by words only: the extra `embeddings` is not installed")
    except (OSError, ValueError) as error:
        tell(f"facts are searched by words only: the model {model} cannot be loaded ({error})")
    return None
