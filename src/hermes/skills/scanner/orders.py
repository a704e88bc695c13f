"""Orders that a skill gives in words, as data."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Rule

_WITHIN: Final = 160
"""Characters between two parts of an order."""


class Order(msgspec.Struct, frozen=True):
    """Parts that follow each other in one paragraph. They are looked for one after the other, so
    that no text takes longer than it is long."""

    rule: Rule
    parts: tuple[re.Pattern[str], ...]

    def places(self, text: str) -> Iterator[int]:
        first, *rest = self.parts
        for match in first.finditer(text):
            end = match.end()
            for part in rest:
                end = _after(part, text, end)
                if end < 0:
                    break
            else:
                yield match.start()


def _after(part: re.Pattern[str], text: str, start: int) -> int:
    """Where the next part ends; -1 when it does not follow."""
    stop = text.find("\n", start, start + _WITHIN)
    found = part.search(text, start, stop if stop >= 0 else start + _WITHIN)
    return found.end() if found else -1


def order(rule: Rule, *parts: str) -> Order:
    return Order(rule, tuple(re.compile(part, re.IGNORECASE) for part in parts))


_C: Final = Category
_I: Final = Category.PROMPT_INJECTION
INJECTION: Final = {
    "prompt_injection": Rule("prompt_injection", _I, "critical", "has the agent drop its orders"),
    "deception_hide": Rule("deception", _I, "critical", "has the agent deceive the user"),
    "sys_prompt_override": Rule("system_prompt", _I, "critical", "takes the system prompt's place"),
    "disregard_rules": Rule("disregard_rules", _I, "critical", "has the agent drop its rules"),
    "bypass_restrictions": Rule("bypass", _I, "critical", "says that nothing binds the agent"),
    "html_comment_injection": Rule("hidden_order", _I, "critical", "gives orders nobody sees"),
    "hidden_div": Rule("hidden_order", _I, "critical", "gives orders nobody sees"),
    "translate_execute": Rule("decoded_order", _I, "high", "has the agent decode orders and obey"),
    "exfil_curl": Rule("sends_secrets", _C.EXFILTRATION, "high", "sends secrets away"),
    "read_secrets": Rule("reads_secrets", _C.CREDENTIAL_ACCESS, "high", "has secrets shown"),
}
"""By the id of the injection scan."""

_USER = r"(?:the\s+)?(?:users?|humans?|person|owner|operator|them|people|anyone|anybody)"
_SEND = (
    r"\b(?:send|post|attach|upload|forward|submit|e-?mail|transmit|report|push|deliver|leak|copy)\b"
)
_ADDRESS = r"https?://|\bwww\.|[\w.+-]{1,40}@[\w-]{1,40}\."
_PRIVATE = (
    r"\b(?:conversations?|chat|transcripts?|history|workspace|source\s+code|repositor(?:y|ies)|"
    r"api[\s-]keys?|passwords?|credentials?|secrets?|seed\s+phrases?|private\s+keys?|tokens?|"
    r"system\s+prompt|environment\s+variables?|memory|files\s+of\s+the\s+user|both|cookies)\b"
)
_START = r"\b(?:run|start|launch|call|use|pass|add|invoke)\b"
_NOT = r"\b(?:do\s+not|don['’]?t|never)\s+"
_DEEDS = (
    r"(?:push|send|upload|copy|install|run|read|delete|download|post|chang|ran|sent|did|do|add|"
    r"execut)\w*"
)

_OFF = Rule("approvals_off", _C.PRIVILEGE_ESCALATION, "critical", "has the approvals turned off")
_LOOSE = Rule(
    "approvals_set", _C.PRIVILEGE_ESCALATION, "critical", "loosens the rules of the agent"
)
_QUIET = Rule("never_asks", _C.PRIVILEGE_ESCALATION, "medium", "keeps the agent from asking")
_YES = Rule(
    "consents_itself", _C.PRIVILEGE_ESCALATION, "high", "has the agent consent for the user"
)
_EVADES = Rule("evades_checks", _C.PRIVILEGE_ESCALATION, "high", "has the agent evade checks")
_HIDES = Rule("hides_deeds", _I, "high", "has the agent hide what it does")
_SOUL = Rule("rewrites_soul", _C.PERSISTENCE, "high", "writes itself into the agent's instructions")
_CLAIMS = Rule("claims_safety", _I, "high", "speaks to whoever checks it")
ORDERS: Final = (
    order(
        _OFF,
        r"\b(?:disable|turn\s+off|switch\s+off|bypass|skip|remove|deactivate|circumvent|suppress)\s+"
        r"(?:\w+\s+){0,4}?(?:approvals?|approval\s+prompts?|confirmation\s+(?:prompts?|dialogs?)|"
        r"sandbox|safety\s+checks?|permission\s+(?:prompts?|checks?)|guardrails?|security\s+scans?|"
        r"scanner)\b",
    ),
    order(
        _LOOSE,
        r"\b(?:set|change|switch|put|turn|configure)\b",
        r"\bapprovals\.mode\b[^.\n]{0,30}\boff\b",
    ),
    order(_LOOSE, _START, r"--yolo\b|--dangerously-skip-permissions"),
    order(_LOOSE, r"\b(?:add|append|put|write)\b", r"command_allowlist"),
    order(
        _LOOSE,
        r"\bHERMES_YOLO_MODE\s{0,3}=\s{0,3}[\"']?(?:1|true|on|yes)|"
        r"\bauto-?approve\s+(?:all|every|any)",
    ),
    order(
        _EVADES,
        r"\b(?:until|so\s+that)\s+(?:the|no)\s+(?:\w+\s+)?(?:checks?|filters?|scanners?|approvals?|rules?)"
        r"\s+(?:no\s+longer|does\s+not|doesn['’]?t|do\s+not|stops?)\b|"
        r"\b(?:get|work)\s+around\s+(?:the\s+)?(?:\w+\s+)?(?:approvals?|permissions?|scanners?|"
        r"sandbox|safety)\b|\b(?:evade|dodge|slip\s+past|trick)\s+(?:the\s+)?(?:\w+\s+)?(?:checks?|"
        r"filters?|scanners?|approvals?|guard\w*)\b",
    ),
    order(
        Rule("locked_download", _C.SUPPLY_CHAIN, "high", "has a locked archive unpacked and run"),
        r"https?://\S{1,200}\.(?:zip|7z|rar|dmg|exe|pkg|msi)\b",
        r"\bpassword\b",
        r"\b(?:run|execute|open|start|launch|install)\b",
    ),
    order(
        Rule("outranks_user", _I, "high", "puts others above the user"),
        r"\b(?:overrides?|outranks?|takes?\s+precedence\s+over|has\s+priority\s+over)\s+"
        r"(?:whatever\s+|what\s+|anything\s+)?(?:the\s+)?(?:user\b|you\s+were\s+told)",
    ),
    order(
        Rule("hidden_copies", _C.EXFILTRATION, "high", "has copies of mail sent to a stranger"),
        r"[\w.+-]{1,40}@[\w-]{1,40}\.",
        r"\bb?cc\b",
        r"\b(?:each|every|all|any)\b",
    ),
    order(
        Rule("speaks_to_model", _I, "high", "speaks to the model behind the user's back"),
        r"\b(?:to|dear|attention|note\s+(?:to|for))[,:]?\s+(?:the\s+|any\s+|all\s+)?(?:language\s+models?|"
        r"llms?|ai(?:\s+(?:models?|assistants?|agents?|systems?))?)\s+(?:reading|processing|that\s+reads?|"
        r"parsing|who\s+reads?|seeing)\b",
    ),
    order(
        _YES,
        r"\b(?:answer|reply|respond|say|click|choose)\b",
        r"\b(?:yes|approve|allow|always)\b",
        r"\b(?:every|all|any|each)\s+(?:\w+\s+)?(?:approvals?|confirmations?|permissions?)\b",
    ),
    order(
        Rule("collects_secrets", _C.CREDENTIAL_ACCESS, "high", "collects secrets the user types"),
        rf"\b(?:when|whenever|if|each\s+time)\s+{_USER}\s+(?:shares?|types?|pastes?|enters?|gives?)\b",
        _PRIVATE,
        rf"{_SEND}|\bsave\b|\bwrite\b|\brecord\b",
        _ADDRESS,
    ),
    order(
        _QUIET,
        rf"{_NOT}ask\s+(?:{_USER}\s+)?for\s+(?:\w+\s+){{0,2}}"
        r"(?:permission|confirmation|approval|consent)",
    ),
    order(
        _QUIET, rf"\bwithout\s+(?:ever\s+)?asking\b(?:\s+{_USER})?(?:\s+for\s+\w+)?(?=[.,;\s]|$)"
    ),
    order(
        Rule("follows_remote", _I, "critical", "obeys orders from the network"),
        _ADDRESS,
        r"\b(?:follow|obey|execute|carry\s+out|do|run|apply)\s+(?:exactly\s+)?"
        r"(?:whatever|what|any|all|every|the)\b",
        r"\b(?:it\s+(?:contains?|says?|returns?|tells)|in\s+it|there|inside|found|instructions)\b",
    ),
    order(
        Rule("overwrites_itself", _C.SUPPLY_CHAIN, "high", "replaces itself from the network"),
        r"\b(?:download|fetch|get)\b",
        r"https?://",
        r"\b(?:overwrite|replace|update)\s+(?:this|your|the)\s+(?:file|skill|instructions)",
    ),
    order(
        Rule("sends_private_words", _C.EXFILTRATION, "critical", "has private things sent away"),
        _SEND,
        _PRIVATE,
        rf"\b(?:to|at|via|with)\s[^\n]{{0,40}}?(?:{_ADDRESS})",
    ),
    order(
        Rule("sends_stores", _C.EXFILTRATION, "critical", "has keys read and sent away"),
        r"\.env\b|\.aws/credentials|\.ssh/|\.netrc|id_rsa|keychain",
        rf"{_SEND}|\binclude\b",
        _ADDRESS,
    ),
    order(
        Rule("asks_secrets", _C.CREDENTIAL_ACCESS, "critical", "coaxes secrets out of the user"),
        rf"\bask\s+{_USER}\s+for\b",
        r"seed\s+phrase|private\s+key|password|recovery\s+(?:phrase|code)|\bpin\b|2fa",
        _SEND,
    ),
    order(
        Rule("picture_leak", _C.EXFILTRATION, "critical", "leaks data through a picture's address"),
        r"!\[[^\]\n]{0,80}\]\(https?://",
        r"[?&=][^)\n]{0,40}?[{<$\[]",
        r"(?:data|conversation|message|secret|key|token|env|history|context|prompt|"
        r"base64)",
    ),
    order(
        _SOUL,
        r"\b(?:add|append|write|insert|put|copy|save)\b",
        r"\b(?:into|to|in|at\s+the\s+\w+\s+of)\b[^\n]{0,60}?(?:SOUL\.md|\.hermes/(?:config|plugins|hooks)|system\s+prompt|"
        r"every\s+(?:other\s+|new\s+)?skill|all\s+(?:other\s+)?skills|AGENTS\.md\s+of\s+every)",
    ),
    order(
        Rule("spreads", _C.PERSISTENCE, "high", "spreads to other skills or projects"),
        r"\bwhenever\s+you\s+(?:create|edit|write|change)\b",
        r"\bskills?\b",
        r"\b(?:append|add|insert|include|copy)\b",
    ),
    order(
        _HIDES,
        rf"{_NOT}(?:tell|inform|let)\s+{_USER}\s+(?:know\s+)?(?:that|about|what|which)\s+"
        rf"(?:\w+\s+){{0,3}}?{_DEEDS}",
    ),
    order(
        _HIDES,
        r"\bif\s+(?:they|the\s+user|he|she)\s+asks?\b",
        r"\b(?:say|answer|claim|reply|pretend|tell\s+them)\s+(?:that\s+)?you\s+only\b",
    ),
    order(
        _HIDES,
        rf"\b(?:hide|conceal|keep)\b[^.\n]{{0,80}}?\bfrom\s+{_USER}\b|\binvisible\s+to\s+{_USER}\b|"
        rf"\b{_USER}\s+must\s+not\s+(?:notice|know|see)|\b(?:silently|secretly|covertly)\s+"
        r"(?:run|execute|send|upload|push|install|read|post|fetch|copy|delete|download)\b|"
        r"\bno\s+need\s+to\s+(?:mention|tell|inform|bring\s+(?:it|this|that)\s+up)\b|"
        r"\bleave\s+(?:it|this|them)\s+out\s+of\s+the\s+(?:summary|report|answer|reply)",
    ),
    order(
        _CLAIMS,
        r"\b(?:scanners?|reviewers?|audit\w*|security\s+tools?|moderat\w+)\b",
        r"\b(?:answer|say|reply|report|respond)\b",
        r"\b(?:safe|audited|clean|harmless|trusted)\b",
    ),
    order(
        _CLAIMS,
        r"\bthis\s+(?:skill|file)\s+(?:is|was|has\s+been)\s+(?:\w+\s+)?(?:pre-?approved|verified\s+as"
        r"\s+safe|exempt\s+from)",
    ),
    order(
        Rule("comment_order", _I, "high", "speaks to the agent in a comment"),
        r"<!--[^>\n]{0,40}\b(?:ai|llm|agent|assistant|model|claude|gpt|hermes)\b[^>\n]{0,30}?[:,]",
        r"\b(?:read|send|run|execute|curl|fetch|post|ignore|install|include|put)\b",
    ),
)
