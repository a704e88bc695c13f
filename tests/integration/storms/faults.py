"""Every way a model call can go wrong, as steps of the model server."""

import itertools
import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

from hermes.core.messages import AssistantPart, Text, Thinking, ToolCall
from hermes.core.testing import (
    CallIds,
    Cut,
    ErrorEvent,
    Fault,
    Gzip,
    Interleave,
    KeepAlive,
    Malformed,
    Redirect,
    Refuse,
    Slow,
    SplitBytes,
    Stall,
    Step,
)
from hermes.core.testing.http_server import RecordedRequest
from hermes.core.testing.script import RefusalKind
from tests.integration.storms.histories import check_request
from tests.integration.storms.scene import RAISED

STALLED = 60.0
WORK = "nothing but work"
KINDS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text("utf-8"))


class Deck:
    """Kinds in an order of chance, each once before any comes again."""

    def __init__(self, kinds: Iterable[str], chance: random.Random) -> None:
        self._kinds, self._chance = sorted(kinds), chance
        self._left: list[str] = []

    def deal(self) -> str:
        self._left = self._left or self._chance.sample(self._kinds, len(self._kinds))
        return self._left.pop()


class Storm:
    """The script of a model server: most replies go wrong, and in some turns all in one way.

    Faults are dealt from shuffled decks, so that none is left out; `struck` counts what was really
    sent.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.struck: Counter[str] = Counter()
        self.calm = False  #: True: every call is answered with a text.
        self._numbers = itertools.count(1)
        self._faults = {**self._refusals(), **self._broken_streams(), **self._odd_replies()}
        self.stuck = ""  #: The fault of every call in this turn.
        self._turns = itertools.count()
        self._deck = Deck(self._faults, self.chance)
        self._stuck_deck = Deck(KINDS["stuck"], self.chance)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._faults)

    def next_turn(self) -> None:
        self.calm = False
        self.stuck = self._stuck_deck.deal() if next(self._turns) % 3 == 0 else ""

    def __call__(self, request: RecordedRequest) -> Step:
        check_request(request)
        if self.calm:
            return Step((Text(f"calm again, {next(self._numbers)}"),))
        what = self.chance.random()
        if not self.stuck and what < 0.15:
            return Step(self._words())
        if self.stuck == WORK or (not self.stuck and what < 0.3):
            return Step((*self._words(), *self._notes(self.chance.randint(1, 3))))
        kind = self.stuck or self._deck.deal()
        self.struck[kind] += 1
        return self._faults[kind]()

    def _words(self) -> tuple[AssistantPart, ...]:
        said = f"reply {next(self._numbers)}, in words that take several pieces: äöü € 🙂"
        if self.chance.random() < 0.3:
            return Thinking("Let me think about it for a moment."), Text(said)
        return (Text(said),)

    def _call(self, name: str, arguments: str) -> ToolCall:
        return ToolCall(f"call_{next(self._numbers)}", name, arguments)

    def _notes(self, count: int) -> list[ToolCall]:
        return [
            self._call("storm_note", f'{{"text":"number {next(self._numbers)}"}}')
            for _ in range(count)
        ]

    def _refusals(self) -> dict[str, Callable[[], Step]]:
        refusals: dict[str, Callable[[], Step]] = {
            kind: lambda kind=kind: Step(faults=(Refuse(kind),)) for kind in get_args(RefusalKind)
        }
        for kind, seconds in (("rate_limited", 2), ("rate_limited", 3600), ("unavailable", 1)):
            refuse = Refuse(kind, retry_after=seconds)
            refusals[f"{kind} for {seconds} s"] = lambda refuse=refuse: Step(faults=(refuse,))
        elsewhere = Redirect("http://127.0.0.1:9/v1/elsewhere")
        return {**refusals, "redirect": lambda: Step(faults=(elsewhere,))}

    def _broken_streams(self) -> dict[str, Callable[[], Step]]:
        def text(*faults: Fault) -> Callable[[], Step]:
            return lambda: Step(self._words(), faults=faults)

        def calls(*faults: Fault) -> Callable[[], Step]:
            return lambda: Step((*self._words(), *self._notes(3)), faults=faults)

        events: dict[str, Callable[[], Step]] = {
            f"error event: {kind}": text(ErrorEvent(2, kind)) for kind in KINDS["error_events"]
        }
        return events | {
            "stall before the first word": text(Stall(0, STALLED)),
            "stall in a text": text(Stall(2, STALLED)),
            "stall in a call": calls(Stall(9, STALLED)),
            "cut before the first word": text(Cut(0)),
            "cut in a text": text(Cut(2)),
            "cut in a call": calls(Cut(9)),
            "malformed event": text(Malformed(2)),
            "malformed event in a call": calls(Malformed(9)),
            "error event in a call": calls(ErrorEvent(9)),
            "slow": text(Slow(0.002)),
            "split bytes": text(SplitBytes(1)),
            "split bytes of calls": calls(SplitBytes(3)),
            "gzip": text(Gzip()),
            "gzip in pieces": calls(Gzip(), SplitBytes(7)),
            "keep-alive comments": calls(KeepAlive()),
            "interleaved calls": calls(Interleave()),
            "one id for all calls": calls(CallIds("duplicate")),
            "calls without ids": calls(CallIds("missing")),
        }

    def _odd_replies(self) -> dict[str, Callable[[], Step]]:
        def call(name: str, arguments: str) -> Callable[[], Step]:
            return lambda: Step((self._call(name, arguments), *self._notes(1)))

        def cut_call() -> Step:
            return Step((*self._words(), self._call("storm_note", '{"text":"no e')), "length")

        raised: dict[str, Callable[[], Step]] = {
            f"tool raises {error}": call("storm_fail", f'{{"error":"{error}"}}') for error in RAISED
        }
        return raised | {
            "unknown tool": call("storm_gone", "{}"),
            "tool without a name": call("", "{}"),
            "tool with an odd name": call("storm note\n(é)", "{}"),
            "arguments that are not JSON": call("storm_note", '{"text": nope'),
            "arguments that are not an object": call("storm_note", '["text"]'),
            "arguments of a wrong type": call("storm_flood", '{"size":"many"}'),
            "arguments that are missing": call("storm_note", "{}"),
            "arguments that are unknown": call("storm_note", '{"text":"a","txet":"b"}'),
            "arguments with half a character": call("storm_note", '{"text":"\\ud800"}'),
            "huge output": call("storm_flood", '{"size":400000}'),
            "large output": call("storm_flood", '{"size":30000}'),
            "the same call twice": self._twice,
            "no parts at all": lambda: Step(()),
            "an empty text": lambda: Step((Text(""),)),
            "only blanks": lambda: Step((Text(" \n "),)),
            "reasoning only": lambda: Step((Thinking("Hm."),)),
            "cut off at the length limit": lambda: Step(self._words(), "length"),
            "nothing but the length limit": lambda: Step((), "length"),
            "a call cut off at the length limit": cut_call,
            "reasoning cut off": lambda: Step((Thinking("Hm, and"),), "length"),
            "filtered": lambda: Step(self._words(), "content_filter"),
            "declined": lambda: Step((Text("I would rather not."),), "refusal"),
        }

    def _twice(self) -> Step:
        first = self._call("storm_note", '{"text":"again"}')
        return Step((first, self._call(first.name, first.arguments)))
