"""Whether a phrase addresses the reader or is only mentioned.

A document about prompt injection names the phrases an attacker uses. Such a mention is quoted, or
is the object of a reporting verb (`tries to make the agent ignore …`), and the words around it tell
the topic. Both are required: quotation marks alone, or the word «attack» alone, excuse nothing. A
plain instruction in the sentence itself is never excused this way.
"""

import re
from typing import Final

_BEFORE: Final = 300
_AFTER: Final = 200  #: Characters around a phrase that are searched for the topic.

_ABOUT = re.compile(
    r"inject|jailbr|attack|adversar|malicious|untrusted|red.?team|owasp|exploit|vulnerab|poison|"
    r"payload|guardrail|hostile|take.?over|\bscan(?:s|ned|ner)?\b|social engineering|manipulat|"
    r"suspicious|detect|sanitiz|classifier|\b(?:phrases?|texts?|contents?|inputs?|instructions?|"
    r"messages?|strings?|patterns?|wording|requests?|things?|lines?|comments?|claims?|prompts?|"
    r"anything|something|attempts?|commands?)\W{1,4}(?:like|such as|saying|that says?|that tells?|"
    r"containing|e\.g|including|reading|similar)|treat(?:ed)? (?:it |them |this |that |these |"
    r"those |any |all |such )?\W?(?:\w+ ){0,3}as (?:\w+ ){0,2}(?:data|inert|information)|"
    r"\bas \W?data\b|planted|test.?case|must (?:not|never) (?:obey|follow|comply)|(?:do not|don.t|"
    r"never) (?:obey|comply)",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("`", "`"), ("「", "」"), ("„", "“"), ("'", "'"))
_LONGEST_QUOTE: Final = 400

_TELLING = (
    r"(?:tell|tells|telling|told|ask|asks|asking|asked|instruct|instructs|instructing|instructed|"
    r"direct|directs|directing|order|orders|ordering|try|tries|trying|tried|attempt|attempts|"
    r"attempting|attempted|trick|tricks|tricking|convince|convinces|convincing|persuade|persuades|"
    r"want|wants|urge|urges|urging|request|requests|requesting|cause|causes|causing|get|gets|force|"
    r"forces|forcing|says|say|saying|said|claim|claims|claiming|demand|demands|demanding|"
    r"manipulate|manipulates|manipulating|command|commands|coerce|coerces|designed|meant|used|"
    r"instruction|instructions|attacker|attackers)"
)
_REPORTED = re.compile(
    rf"(?<![a-z])(?:{_TELLING} (?:[a-z0-9]{{1,14}} ){{0,5}}to|could|might|would|"
    r"(?:make|makes|making|let|lets|have|has|having) (?:the |an? |your |its |their "
    r")?[a-z0-9]{1,14}|"
    r"(?:to|could|might|would) (?:[a-z0-9]{1,14} ){1,6}(?:and|or))"
    r"(?: (?:just|simply|then|also|blindly|either)){0,2} $"
)
_IN_FIRST_PERSON = re.compile(
    r"(?<![a-z])(?:(?:i|we) (?:want|need|order|ask|tell|command|instruct|request|urge|expect|"
    r"demand|would)|i m|i am|please|hereby|must now|you (?:must|have|need|are)) [a-z0-9 ]{0,40}$"
)
_CONDITION = re.compile(
    r"(?<![a-z])(?:if|when|whenever|any|should a|even if|attempts|such as|like|never|not|don t|"
    r"(?:that|which) (?:asks?|tells?|tr(?:y|ies)|says?|instructs?|wants?|attempts?)) "
)
_NEGATED = re.compile(
    r"(?<![a-z])(?:never|not|don t|dont|cannot|can t|mustn t|shouldn t|won t|wouldn t|doesn t|"
    r"didn t|nor|refuse to|refuses to|refuse|avoid|without|instead of|rather than|unable to|(?:did|"
    r"do|have|has|does) (?:i|we|you|it|they))(?: (?:ever|simply|just|blindly|to|be|silently|let|"
    r"have it|casually|accidentally)){0,2} $"
)
_NEGATION = re.compile(
    r"(?<![a-z])(?:never|not|don t|dont|can t|avoid|nor|did i|did you|(?<!you )(?:can|could|might|"
    r"may|would)|attackers?|malicious) |(?:works?|works? hard|tr(?:y|ies)|attempts?|aims?|tends?|"
    r"designed|meant|allows?|how|ways?|used) to $"
)
_FORBIDDING: Final = 160
_SENTENCE_END = re.compile(r"[.!?]\s|\n\s*\n")
_FORBIDDEN = re.compile(
    r"\b(?:never|not|n't|don.t|do not|must not|avoid|cannot|can.t|forbid\w*|prohibit\w*|den(?:y|"
    r"ied|ies)|block\w*|refus\w*|reject\w*|prevent\w*|disallow\w*|without|no)\b|n.t\b|❌|🚫|⛔"
)
_PERMITTED = re.compile(
    r"(?<![a-z])(?:can|may|could|should|safely|want to|free to|then|simply|just) (?:safely |"
    r"simply |just |also |then |always )?$"
)
_WHOLE = re.compile(r"all|any|every|your|system")
_FROM_OUTSIDE = re.compile(
    r" (?:(?:that|which|it|they|you|he|she) )?(?:(?:is|are|may|might|could|can|"
    r"were) )?(?:be )?(?:in|from|inside|found|embedded|contained|within|that|which|coming|inserted|"
    r"hidden|appear|appears|appearing|asking|telling|see|encounter|you see|you find|contains|"
    r"written|present|included|injected|placed|addressed|to the contrary|on|with)\b(?! (?:the |"
    r"your |my )?(?:system|developer|operator|user|prompt|above|start|beginning|you were|you have|"
    r"came before|your|was given|were given)\b)"
)
_CONDITION_AFTER = re.compile(
    r" (?:if|when|unless|for|in case|as|because|since|until|on|regarding|about) "
)


def is_forbidden(plain: str, start: int) -> bool:
    """Return whether the sentence so far, or the line that opens the list, forbids what follows."""
    before = plain[max(0, start - _FORBIDDING) : start]
    return bool(_FORBIDDEN.search(_SENTENCE_END.split(before)[-1]))


def is_negated(before: str, plain: str, start: int) -> bool:
    """Return whether the words before the phrase forbid it. `Never. Ignore …` forbids nothing."""
    joined = plain[max(0, start - 3) : start].rstrip("*_~\"'`( \t\n")[-1:] not in tuple(".!?;:,…—")
    return joined and bool(_NEGATED.search(before))


def is_denied(before: str) -> bool:
    """Return whether the sentence so far forbids an action, or only says that it can happen."""
    return bool(_NEGATION.search(before))


def is_permitted(before: str, phrase: str, after: str) -> bool:
    """Return whether a reader is told which earlier part of a manual does not apply."""
    if _WHOLE.search(phrase.replace(" ", "")):
        return False
    return bool(
        _PERMITTED.search(before)
        or _CONDITION_AFTER.match(after)
        or before.startswith(("if ", "for ", "when ", "in case "))
    )


def concerns_external_text(after: str) -> bool:
    """`Ignore all instructions found in web pages`: a safeguard, not an attack."""
    return bool(_FROM_OUTSIDE.match(after))


def is_mention(plain: str, start: int, end: int, before: str) -> bool:
    """Return whether the phrase at `start:end` of the folded text is quoted or reported."""
    about = bool(
        _ABOUT.search(plain, max(0, start - _BEFORE), start)
        or _ABOUT.search(plain, end, min(len(plain), end + _AFTER))
    )
    reported = _REPORTED.search(before) and not _IN_FIRST_PERSON.search(before)
    if reported and (about or _CONDITION.search(before)):
        return True
    return about and (_is_quoted(plain, start, end) or _is_identifier(plain, start, end))


def _is_quoted(plain: str, start: int, end: int) -> bool:
    """Between quotation marks on its line, in a table cell, or in a fenced block."""
    left = max(plain.rfind("\n", 0, start) + 1, start - _LONGEST_QUOTE)
    right = plain.find("\n", end, end + _LONGEST_QUOTE)
    head = plain[left:start]
    tail = plain[end : right if right >= 0 else end + _LONGEST_QUOTE]
    for opening, closing in _QUOTES:
        if opening == closing:
            if (head.count(opening) % 2 or head.endswith(opening)) and closing in tail:
                return True
        elif opening in head and closing in tail and head.rfind(opening) >= head.rfind(closing):
            return True
    return (head.lstrip().startswith("|") and "|" in tail) or _is_fenced(plain, start)


def _is_fenced(plain: str, start: int) -> bool:
    window = plain[max(0, start - 4_000) : start]
    fences = window.count("\n```") + window.startswith("```")
    return bool(fences % 2) and "\n```" in plain[start : start + 4_000]


def _is_identifier(plain: str, start: int, end: int) -> bool:
    """An identifier: `test_ignore_previous_instructions`, `ignore-previous-instructions`."""
    words = plain[start:end]
    joint = "_" if "_" in words else "-"
    return joint in words and not any(char.isspace() for char in words)
