"""Everything about a compaction that is decided before a model is asked, and the result."""

from typing import Any

import msgspec

from hermes.context.compressor.bounds import Bounds
from hermes.context.compressor.facts import Facts, facts_of, with_facts
from hermes.context.compressor.notes import ACTIVE, Notes
from hermes.context.compressor.options import Sizes
from hermes.context.compressor.reading import cut_to
from hermes.context.compressor.summary_message import (
    AFTER_END,
    IN_TAIL,
    IN_USERS,
    Summary,
    is_summary,
    merged,
    read_summary,
    write_summary,
)
from hermes.context.compressor.todo_list import newest_list
from hermes.context.compressor.user_words import words_of
from hermes.context.engine import Dict, Dicts


class Layout(msgspec.Struct, frozen=True):
    head: Dicts
    earlier: Summary
    """The notes of earlier compactions."""
    fresh: Dicts
    """The messages that are in no notes yet."""
    going: Dicts
    """Those of them that are not repeated."""
    facts: Facts
    todo: str
    joined: Any
    """Content of the user that follows the notes in the same message, or None."""
    request: str
    """The newest words of the user where they are not among `fresh`."""
    place: str
    """The sentence that says where these words are."""
    tail: Dicts

    @property
    def said_and_done(self) -> Dicts:
        """What notes are made of: also the words of the user that went before."""
        return [*({"role": "user", "content": text} for text in self.earlier.users), *self.fresh]

    def built(self, notes: Notes) -> Dicts:
        """The conversation with `notes` for what goes."""
        notes = with_facts(notes, self.facts)
        if self.place:
            notes = notes.with_lines(ACTIVE, [self.place])
        summary = Summary(notes, self.facts.users, self.todo, self.joined)
        return [*self.head, write_summary(summary), *self.tail]


def lay_out(small: Dicts, messages: Dicts, bounds: Bounds, sizes: Sizes) -> Layout:
    """`messages` with what is to be summed up still in it, `small` with as much as possible taken
    out of it; the same messages in both."""
    earlier, fresh = _split(messages[bounds.head : bounds.tail])
    request = words_of(messages[bounds.request]) if bounds.request >= 0 else ""
    tail, joined, going, place = small[bounds.tail :], list[Dict](), fresh, IN_TAIL
    pending = ""
    if bounds.request < bounds.head:
        pending, place = request, IN_USERS if request else ""
    elif bounds.request < bounds.tail:
        last = max(index for index, each in enumerate(fresh) if words_of(each))
        joined = [_bounded(fresh[last], sizes.request)]
        going, request, place = [*fresh[:last], *fresh[last + 1 :]], "", AFTER_END
    if tail and tail[0].get("role") == "user":
        place = AFTER_END if bounds.request == bounds.tail else place
        joined, tail = [*joined, tail[0]], tail[1:]
    todo = newest_list(messages)
    return Layout(
        head=small[: bounds.head],
        earlier=earlier,
        fresh=fresh,
        going=going,
        facts=facts_of(going, earlier, sizes.facts, pending),
        todo=todo.text if bounds.head <= todo.place < bounds.tail else "",
        joined=_content(joined),
        request=request,
        place=place,
        tail=tail,
    )


def _split(messages: Dicts) -> tuple[Summary, Dicts]:
    """Earlier notes and the rest. A request joined to notes is a message of its own again."""
    summaries: list[Summary] = []
    fresh: Dicts = []
    for message in messages:
        if not is_summary(message):
            fresh.append(message)
            continue
        summaries.append(read_summary(message))
        if summaries[-1].request is not None:
            fresh.append({"role": "user", "content": summaries[-1].request})
    return merged(summaries), fresh


def _bounded(message: Dict, tokens: int) -> Dict:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": cut_to(content, tokens)}
    blocks = [
        {**block, "text": cut_to(block["text"], tokens)}
        if isinstance(block, dict) and isinstance(block.get("text"), str)
        else block
        for block in content or ()
    ]
    return {**message, "content": blocks}


def _content(messages: Dicts) -> Any:
    """The content of all of them, one after the other; None for none."""
    contents = [message.get("content") for message in messages]
    if not contents:
        return None
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "\n\n".join(texts)
    blocks: list[Any] = []
    for content in contents:
        blocks += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return blocks
