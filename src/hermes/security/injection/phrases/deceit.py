"""Hiding something from the person the agent works for."""

from typing import Final

_NOT = (
    r"(?:do not|don t|dont|never|must not|mustn t|should not|shouldn t|shall not|will not|"
    r"you may not|refrain from|avoid|be careful not to|make sure not to|be sure not to|"
    r"under no circumstances)"
)
_PRINCIPAL = (
    r"(?:the |your |this |any |a |our ){0,2}(?:user|users|human|humans|operator|operators|owner|"
    r"owners|developer|developers|maintainer|maintainers|reviewer|reviewers|person|"
    r"admin|administrator|customer|supervisor|engineer)"
)
_PERSON = rf"(?:{_PRINCIPAL}|anyone|anybody)"
_TELL = (
    r"(?:tell|telling|inform|informing|notify|notifying|alert|alerting|warn|warning|"
    r"reveal to|revealing to|disclose to|report to|reporting to|say to|mention to|admit to|show|"
    r"let|"
    r"letting)"
)
_DONE = (
    r"(?:did|have|had|ran|read|sent|executed|made|changed|deleted|uploaded|modified|installed|"
    r"added|removed|copied|are doing|are sending|are running|are following|are reading|"
    r"are instructed|were|received|found|saw|called|fetched|wrote|posted|accessed|do this|did this)"
)
_THIS = (
    r"(?:this|these|any of this|anything|any of these|it|what happened|what was done|"
    rf"(?:that )?you {_DONE}|what you {_DONE}|what you do|why you|how you|that this|that these|"
    r"that it|that anything|(?:the|this|these|your|any) (?:hidden |secret |new |additional |extra "
    r")?"
    r"(?:change|changes|command|commands|instruction|instructions|upload|transfer|backdoor|leak|"
    r"exfiltration|action|actions|modification|modifications|injection|payload|activity|step|"
    r"script|directive|directives|note|message|request|rule))"
)
_ACTION = (
    r"(?:send|upload|post|copy|run|execute|install|delete|remove|modify|change|add|commit|push|"
    r"forward|exfiltrate|transmit|download|leak|grant|disable|transfer|email|mail|encode|insert|"
    r"inject|append|create|approve|merge|do this|do it|do so|do all of this|do that|continue|"
    r"proceed|act)"
)
DECEPTION_HIDE: Final = (
    rf"{_NOT} (?:ever )?{_TELL} {_PERSON} (?:about |of |know |know about |know that |see )?{_THIS}",
    rf"{_NOT} (?:ever )?(?:tell|inform|notify|alert|warn) {_PERSON} (?:\.|under any|at any point|"
    r"no matter|even if|ever|and (?:just |simply |then |silently |quietly )?" + _ACTION + r")",
    (
        rf"{_NOT} (?:ever )?let {_PERSON} (?:know|find out|see|notice|discover|suspect) "
        r"(?:\.|about this|of this|that you|what you|this|these|anything)"
    ),
    (
        rf"{_NOT} (?:ever )?(?:mention|mentioning|acknowledge|admit|discuss|report|reporting|"
        rf"explain|show) "
        r"(?:any of )?(?:this|it|these|that you|what you|having|this file|this step|this action|"
        r"these steps|"
        r"(?:these|this|the|your) (?:hidden |secret |new )?(?:instruction|instructions|directive|"
        r"directives|command|commands|message|note|action|actions|change|request|rule|behavior|"
        r"behaviour|prompt|injection|upload))"
        rf" <4>(?:to|from|with) {_PRINCIPAL}"
    ),
    (
        rf"{_NOT} (?:ever )?(?:reveal|revealing|disclose|disclosing) (?:any of )?(?:this|it|that "
        rf"you|what you|"
        r"this step|this action|(?:the|your) (?:command|commands|action|actions|change|upload|"
        r"injection))"
        rf" <4>(?:to|from|with) {_PRINCIPAL}"
    ),
    (
        rf"{_NOT} (?:mention|reveal|disclose|acknowledge|report) (?:this|it|these|these "
        rf"instructions|"
        r"this instruction|this step|this action|that you) <4>in (?:your|the|any) "
        r"(?:final )?(?:response|reply|answer|summary|output|report|message|chat)"
    ),
    (
        rf"(?:hide|conceal|withhold|keep) (?:the fact|your actions|your real|your true|what you|"
        r"these instructions|this instruction|any evidence|all evidence|all traces|any trace|"
        r"the truth|the real|this fact|all of this|any of this|everything you|the existence of "
        r"this|"
        rf"this message|this change|the change) <6>(?:from|hidden from|secret from) {_PERSON}"
    ),
    (
        rf"keep (?:this|it|these|that|all of this|everything|these instructions|this instruction|"
        rf"this message) (?:a )?(?:secret|hidden|quiet|private|confidential) from {_PERSON}"
    ),
    r"keep (?:this|it|that) (?:strictly )?(?:between us|between you and me|between ourselves)",
    (
        rf"{_PERSON} (?:must|should|shall|may|can|will) (?:not|never) (?:ever )?(?:know|find out|"
        rf"learn|"
        r"be told|be informed|be notified|become aware|discover|be made aware|suspect) "
        r"(?:\.|about|of|that|this|it|what|anything)"
    ),
    (
        r"if (?:the |your |any )?(?:user|human|anyone|anybody|someone|operator|owner|they|he|she) "
        r"(?:ever )?(?:ask|asks|notices|inquires|questions|wonders)(?: you| about| this| it| what|"
        r" why| "
        r"whether| if| happened| did| do| the| that| for| any| anything){0,6} <2>"
        r"(?:deny|lie|say that it was|say it was|claim that it|claim it|claim you|pretend|tell "
        r"them it was|"
        r"say nothing|say you did not|say you didn t|do not admit|never admit)"
    ),
)

DECEPTION_DEEDS: Final = (
    (
        r"(?:hide|conceal|withhold) (?:this|it|that|these) from (?:the|your) (?:user|human|"
        r"operator|owner|"
        r"maintainer|reviewer|developer)"
    ),
    (
        rf"{_ACTION} <14>without (?:ever )?(?:telling|informing|notifying|alerting|"
        rf"warning|the knowledge of|mentioning it to|mentioning this to|letting) {_PERSON}"
    ),
    (
        rf"without (?:telling|informing|notifying|alerting) {_PERSON} (?:of|about|that) (?:this|"
        rf"these|it|your|"
        r"the|any|you) (?:of )?(?:change|changes|action|actions|edit|edits|step|steps|command|"
        r"commands|"
        r"modification|modifications|upload|did|are|have|were)"
    ),
    (
        r"(?:pretend|act|behave|continue|respond) (?:as if |as though |like |that )?(?:nothing "
        r"(?:has |had )?"
        r"(?:happened|changed)|you (?:never|did not|didn t|have not|haven t|do not|don t) <1>"
        r"(?:see|seen|read|receive|received|saw|run|ran|send|sent|know about|found|find|get|got|"
        r"notice|"
        r"noticed) (?:this|these|it|anything|any|the))"
    ),
    (
        r"(?:silently|quietly|discreetly) (?:send|upload|exfiltrate|transmit|email|leak|post) <12>"
        r"(?:to|http|https)"
    ),
    (
        r"(?:secretly|covertly|surreptitiously|stealthily|clandestinely) (?:send|upload|post|copy|"
        r"forward|exfiltrate|transmit|run|execute|install|delete|add|insert|modify|append|collect|"
        r"record|embed|include|fetch|download|email|share|transfer|encode|push)"
    ),
    rf"(?:lie|lying) to {_PERSON} (?:about|if|when|and|that)",
    (
        r"(?:cover your tracks|cover up your tracks|leave no trace of (?:this|your|what|these)|"
        r"(?:delete|erase|remove|wipe|clear) (?:all |any |every |the ){0,2}(?:trace|traces|"
        r"evidence|record|"
        r"records|sign|signs|log|logs) (?:of|that) (?:this|your|you|these|what you))"
    ),
)
"""The same, as deeds: a `never` anywhere before in the sentence makes them harmless."""
