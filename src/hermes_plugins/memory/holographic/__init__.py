"""The local memory provider: facts in an SQLite file of the home, without a service or a model.

`HolographicProvider` extracts facts from conversations and notes, recalls them into turns and gives
the model the `fact_store` tool. Options are in `<home>/holographic.json`.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from hermes.sdk import (
    COMPACTED,
    NOT_THE_USER,
    Home,
    PluginContext,
    Redactor,
    ToolArgumentsInvalid,
    ToolError,
    human_size,
    install_hint,
    many,
    scan_injection,
    tilde,
)
from hermes.sdk.memory import (
    MIRRORED_TARGETS,
    Dict,
    Dicts,
    MemoryProvider,
    change_options,
    not_initialized,
    read_options,
    strip_fences,
)
from hermes_plugins.memory.holographic.extraction import (
    Statement,
    extract_statements,
    significant_words,
)
from hermes_plugins.memory.holographic.recall import find_related, format_recalled, recall, search
from hermes_plugins.memory.holographic.store import (
    DAMAGED,
    SOURCE_NOTES,
    SOURCE_SAID,
    SOURCE_TOOL,
    Embedder,
    Fact,
    FactStore,
    StaticEmbedder,
    format_day,
    open_facts,
    parse_id,
    unusable_error,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FOLDER, DATABASE_FILE = "holographic", "memory.db"


class HolographicOptions(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    embedding_model: str = ""
    """A model2vec model, as a folder or a name; empty disables search by meaning."""
    recall_facts: int = 6  #: Maximum number of facts recalled into one turn.
    recall_chars: int = 1200  #: Maximum number of characters recalled into one turn.


class FactStoreHandle:
    """Opens the store on first use, and again when the file was replaced.

    `create` makes the store of the user for a connection.
    """

    def __init__(
        self,
        path: Path,
        create: Callable[[apsw.Connection], FactStore],
        tell: Callable[[str], None],
    ) -> None:
        self.path = path
        self._create, self._tell = create, tell
        self._store: FactStore | None = None
        self._inode = 0

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored; does not create the file."""
        return self.path.exists()

    def use(self, work: Callable[[FactStore], T]) -> T:
        """Call `work` with the store and return its result.

        A damaged file is replaced and `work` called again. Raises `StoreError`.
        """
        try:
            return work(self._current())
        except DAMAGED:
            self.close()
        except apsw.Error as error:
            raise unusable_error(self.path, error) from error
        try:
            return work(self._current())
        except apsw.Error as error:
            raise unusable_error(self.path, error) from error

    def close(self) -> None:
        if self._store is not None:
            self._store.connection.close()
            self._store = None

    def _current(self) -> FactStore:
        # Another process may have moved a damaged file aside, or the user may have deleted it.
        if self._store is not None and not self._is_same_file():
            self.close()
        if self._store is None:
            store = self._create(open_facts(self.path, self._tell))
            self._inode = self.path.stat().st_ino
            self._store = store
            store.fill_vectors()
        return self._store

    def _is_same_file(self) -> bool:
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False


TOOL_NAME = "fact_store"
MAX_FOUND = 10
TOOL_TRUST = 0.6  #: Initial trust of facts that the model adds.

TOOL_SCHEMA: dict[str, Any] = {
    "name": TOOL_NAME,
    "description": "Single facts kept over sessions: people, projects, preferences. Search it "
    "before you ask the user again.",
    "parameters": {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["add", "search", "related", "update", "remove", "feedback"],
            },
            "content": {
                "type": "string",
                "description": "add, update: one fact in a sentence; search: words; related: a "
                "name or an id",
            },
            "id": {"type": "integer", "description": "update, remove, feedback"},
            "helpful": {"type": "boolean", "description": "feedback: was the fact right"},
        },
        "required": ["action"],
    },
}

Check = Callable[[str], str]  #: Returns a text that may be stored, or raises `ToolError`.


def run_fact_tool(facts: FactStore, arguments: dict[str, Any], session: str, check: Check) -> str:
    """Run one call of the `fact_store` tool and return its JSON result. Raises `ToolError`."""
    action, content = str(arguments.get("action")), str(arguments.get("content") or "").strip()
    match action:
        case "add":
            added = facts.add(check(content), source=SOURCE_TOOL, session=session, trust=TOOL_TRUST)
            outcome: dict[str, Any] = {added.outcome: _to_result(added.fact)}
            if added.replaced:
                outcome["instead_of"] = [_to_result(fact) for fact in added.replaced]
        case "search" | "related":
            if not content:
                raise ToolArgumentsInvalid("content is empty", hint="say what to look for")
            look = search if action == "search" else find_related
            hits = look(facts, content, MAX_FOUND)
            facts.mark_used(hit.fact.id for hit in hits[:3])
            outcome = {"facts": [_to_result(hit.fact) for hit in hits]}
        case "update":
            outcome = {
                "updated": _to_result(_require(facts.update(_fact_id(arguments), check(content))))
            }
        case "remove":
            if not facts.forget(_fact_id(arguments)):
                _require(None)
            outcome = {"removed": _fact_id(arguments)}
        case "feedback":
            helpful = arguments.get("helpful") is not False
            outcome = {
                "rated": _to_result(_require(facts.rate(_fact_id(arguments), helpful=helpful)))
            }
        case _:
            known = ", ".join(TOOL_SCHEMA["parameters"]["properties"]["action"]["enum"])
            raise ToolArgumentsInvalid(f"there is no action {action!r}", hint=f"use {known}")
    return json.dumps(outcome, ensure_ascii=False)


def _fact_id(arguments: dict[str, Any]) -> int:
    number = parse_id(str(arguments.get("id")))
    if number is None:
        raise ToolArgumentsInvalid("id is missing or is none", hint="search shows the ids")
    return number


def _require(fact: Fact | None) -> Fact:
    if fact is None:
        raise ToolError("there is no fact of that id", hint="search shows the ids")
    return fact


def _to_result(fact: Fact) -> dict[str, Any]:
    shown = {"id": fact.id, "fact": fact.text, "trust": round(fact.trust, 2)}
    shown["said"] = format_day(fact.confirmed)
    if fact.replaced_by:
        shown["outdated_by"] = fact.replaced_by
    if fact.projects:
        shown["only_in"] = fact.projects.replace("\n", ", ")
    return shown


NOTE_TRUST = 0.7  #: Initial trust of facts from notes.
MIN_REPLACED_SHARE = 0.4  #: Share of common words from which a note counts as the replaced one.


def check_storable(text: str) -> str:
    """Return `text` unless it looks like an injection or contains a secret: then raise
    `ToolError`."""
    if findings := scan_injection(text):
        raise ToolError(
            f"not kept: this reads like a prompt injection ({', '.join(findings)})",
            hint="keep plain facts, in your own words",
        )
    if Redactor().redact(text) != text:
        raise ToolError("not kept: there is a secret in it", hint="keys belong into .env")
    return text


def statements_in(message: str) -> list[Statement]:
    """Return the storable statements of a user message."""
    kept: list[Statement] = []
    for statement in extract_statements(strip_fences(message)):
        try:
            check_storable(statement.text)
        except ToolError as error:
            log.info("a statement of the user was left out: %s", error)
        else:
            kept.append(statement)
    return kept


def mirror_note(facts: FactStore, action: str, target: str, content: str, session: str) -> None:
    """Apply a change of the built-in notes to the facts."""
    if target not in MIRRORED_TARGETS:
        return
    source = f"{SOURCE_NOTES}{target}"
    if action == "remove":
        found = facts.find_same(content)
        if found is not None:
            facts.forget(found.id)
        return
    if action == "replace":
        _drop_replaced(facts, source, content)
    try:
        facts.add(check_storable(content), source=source, session=session, trust=NOTE_TRUST)
    except ToolError as error:  # not a failure: the note itself was saved
        log.info("a note was left out: %s", error)


def _drop_replaced(facts: FactStore, source: str, content: str) -> None:
    """Forget the note that `content` replaced: the most similar one, as it is not named."""
    new = set(significant_words(content))
    best, most = 0, MIN_REPLACED_SHARE
    for fact in facts.select("source = ?", source):
        old = set(significant_words(fact.text))
        share = len(new & old) / max(1, len(new | old))
        if share > most:
            best, most = fact.id, share
    if best:
        facts.forget(best)


def _user_texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, list):
            texts = (part.get("text") for part in content if isinstance(part, dict))
            content = "\n".join(text for text in texts if isinstance(text, str))
        if isinstance(content, str) and not content.startswith((COMPACTED, *NOT_THE_USER)):
            yield content


class HolographicProvider(MemoryProvider):
    """The provider of one session. Several sessions may use the file at the same time."""

    def __init__(
        self, *, now: Callable[[], float] = time.time, embedder: Embedder | None = None
    ) -> None:
        self._now, self._embedder = now, embedder
        self._session = self._user = self._project = ""
        self._options = HolographicOptions()
        self._opened: FactStoreHandle | None = None
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
        self._project = str(kwargs.get("project") or "")
        self._options = read_options(Home(home), self.name, HolographicOptions)
        self._embedder = self._embedder or _load_embedder(self._options.embedding_model, tell)
        self._opened = FactStoreHandle(home / FOLDER / DATABASE_FILE, self._create_store, tell)

    def get_tool_schemas(self) -> Dicts:
        return [TOOL_SCHEMA]

    def handle_tool_call(self, name: str, args: Dict, **_kwargs: Any) -> str:
        if name != TOOL_NAME:
            return super().handle_tool_call(name, args)
        try:
            return self._facts.use(
                lambda facts: run_fact_tool(facts, args, self._session, check_storable)
            )
        except ToolError as error:
            text = f"{error} ({error.hint})" if error.hint else str(error)
            return json.dumps({"error": text}, ensure_ascii=False)

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
        model = str(values.get("embedding_model") or "")
        home = Home(Path(hermes_home))
        change_options(home, self.name, HolographicOptions, embedding_model=model)

    def prefetch(self, query: str, **_kwargs: Any) -> str:
        """Return the best facts, without notes: these are in the prompt anyway."""
        if not self._facts.exists:
            return ""

        def look(facts: FactStore) -> str:
            recalled = recall(facts, query, self._options.recall_facts, self._project)
            lines, new = format_recalled(recalled, self._options.recall_chars, self._used)
            facts.mark_used(new)  # once per session, or recalled facts would reinforce themselves
            self._used.update(new)
            return lines

        return self._facts.use(look)

    def sync_turn(self, user: str, assistant: str, **_kwargs: Any) -> None:  # noqa: ARG002 - the user's words are the source
        statements = statements_in(user)

        def store(facts: FactStore) -> None:
            for each in statements:
                facts.add(each.text, **self._origin(each))

        if statements:
            self._facts.use(store)

    def on_session_end(self, messages: Dicts) -> None:
        statements = [each for text in _user_texts(messages) for each in statements_in(text)]

        def store(facts: FactStore) -> None:
            for each in statements:
                facts.add_if_unseen(each.text, **self._origin(each))

        if statements:
            self._facts.use(store)

    def _origin(self, statement: Statement) -> Dict:
        """Return the source, session, trust and project of a statement of the user."""
        project = self._project if statement.is_about_work else ""
        trust = statement.trust
        return {"source": SOURCE_SAID, "session": self._session, "trust": trust, "project": project}

    def on_pre_compress(self, messages: Dicts) -> None:
        self.on_session_end(messages)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        self._facts.use(lambda facts: mirror_note(facts, action, target, content, self._session))

    def shutdown(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def summary(self) -> str:
        path = self._facts.path
        if not self._facts.exists:
            return f"no facts yet ({tilde(path)})"
        rows = self._facts.use(
            lambda facts: facts.query("SELECT user, count(*) FROM facts GROUP BY user")
        )
        counts: dict[str, int] = dict(rows)
        mine, others = counts.pop("", 0), sum(counts.values())
        of_others = f" and {others:,} of {many(len(counts), 'other user')}" if counts else ""
        size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
        return f"{many(mine, 'fact')} of yours{of_others}, {human_size(size)} in {tilde(path)}"

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        if not self._facts.exists:
            return []

        def look(facts: FactStore) -> list[Fact]:
            if query:
                return [hit.fact for hit in search(facts, query, limit)]
            return facts.newest(limit)

        return [_to_entry(fact) for fact in self._facts.use(look)]

    def edit(self, entry_id: str, text: str) -> bool:
        if (number := parse_id(entry_id)) is None:
            return False
        return self._facts.use(lambda facts: facts.update(number, check_storable(text))) is not None

    def forget(self, entry_id: str) -> bool:
        if (number := parse_id(entry_id)) is None:
            return False
        return self._facts.use(lambda facts: facts.forget(number))

    @property
    def _facts(self) -> FactStoreHandle:
        if self._opened is None:
            raise not_initialized(self.name)
        return self._opened

    def _create_store(self, connection: Any) -> FactStore:
        return FactStore(connection, self._user, embedder=self._embedder, now=self._now)


def _to_entry(fact: Fact) -> Dict:
    entry: Dict = {"id": str(fact.id), "text": fact.text, "trust": round(fact.trust, 2)}
    entry |= {"said": format_day(fact.confirmed), "source": fact.source}
    if fact.replaced_by:
        entry["outdated_by"] = str(fact.replaced_by)
    if fact.projects:
        entry["only_in"] = fact.projects.replace("\n", ", ")
    return entry


def _load_embedder(model: str, tell: Callable[[str], None]) -> Embedder | None:
    """Return the model for search by meaning, or None: then only words are searched."""
    if not model:
        return None
    try:
        return StaticEmbedder(model)
    except ImportError:
        hint = install_hint("embeddings")
        tell(f"facts are searched by words only; to search by meaning too: {hint}")
    except (OSError, ValueError) as error:
        tell(f"facts are searched by words only: the model {model} cannot be loaded ({error})")
    return None


def register(ctx: PluginContext) -> None:
    ctx.register_memory_provider(HolographicProvider())
