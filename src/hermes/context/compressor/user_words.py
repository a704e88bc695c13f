"""What the user said, told apart from what only stands in the user's place."""

import re

from hermes.context.compressor.reading import text_of
from hermes.context.compressor.summary_message import is_summary, read_summary
from hermes.context.engine import Dict, Dicts
from hermes.core.marks import NOT_THE_USER, STEERED

SMALL_TALK = 40
"""Characters up to which a message most likely asks for nothing: "ok, go on"."""


def words_of(message: Dict) -> str:
    """What the user said with this message; "" when it was nobody."""
    if message.get("role") != "user":
        return ""
    if is_summary(message):
        request = read_summary(message).request
        return "" if request is None else words_of({"role": "user", "content": request})
    text = text_of(message).strip()
    if STEERED in text:
        return text.partition(STEERED)[2].strip()
    return "" if text.startswith(NOT_THE_USER) else text


def latest_request(messages: Dicts) -> int:
    """The index of the last message with which the user said something; -1 when there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if words_of(messages[index]):
            return index
    return -1


_STRONG = re.compile(
    r"\b(?:always|never|must(?:n't)?|do(?:n't| not)|cannot|can't|only|avoid|without|forbidden|"
    r"not allowed|under no|at (?:most|least)|no more than|at all times|"
    r"immer|nie(?:mals)?|darf|dürfen|muss|nur|kein\w*|siempre|nunca|debe|solo|toujours|jamais|"
    r"doit|seulement)\b|不要|必须|不能|只能|总是|绝不",
    re.I,
)
_WEAK = re.compile(
    r"\b(?:use|using|prefer\w*|should(?:n't)?|keep|ensure|make sure|instead|rather|require[ds]?|"
    r"important|remember|stay|stick|leave|not|no|nothing|until|before|every|each|limit|format|"
    r"bitte|nicht|please)\b|请|使用",
    re.I,
)
_SENTENCE = re.compile(r"[^\s].*?(?:[.!?。！？](?=\s|$|[^\x00-\x7f])|\n|$)")
MOST_CHARS = 300
"""Of one sentence."""
MOST_OF_ONE = 12
"""Sentences of one message: a long paste is not a list of rules."""


def rules_in(text: str) -> list[str]:
    """Sentences in which somebody lays down how things are to be done, the clearest kept when
    there are many; in their order."""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(text)]
    ranked = [
        (0 if _STRONG.search(sentence) else 1, index)
        for index, sentence in enumerate(sentences)
        if len(sentence) >= 8 and (_STRONG.search(sentence) or _WEAK.search(sentence))
    ]
    chosen = sorted(index for _, index in sorted(ranked)[:MOST_OF_ONE])
    return [_cut(sentences[index]) for index in chosen]


def _cut(sentence: str) -> str:
    line = " ".join(sentence.split())
    return line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…"
