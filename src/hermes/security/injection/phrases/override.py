"""Taking the place of the instructions given before."""

from typing import Final

_FILL = (
    r"(?:(?:all|any|of|the|my|your|our|its|their|these|those|this|that|every|each|and|or|other|"
    r"future|"
    r"such|single|both|else|given|system|safety|security|developer|user|user s|initial|original|"
    r"current|stated|listed|set|list|kind|type|forms|whatever|entire|whole) ){0,6}"
)
_EARLIER = (
    r"(?:previous|previously|prior|preceding|earlier|above|foregoing|former|past|existing|"
    r"preexisting|aforementioned|pre existing)"
)
_INSTRUCTIONS = (
    r"(?:instruction|instructions|prompt|prompts|directive|directives|direction|directions|"
    r"instructs|instruct|guidance|guidances)"
)
_RULES_GIVEN = (
    r"(?:rule|rules|guideline|guidelines|training|programming|constraint|constraints|restriction|"
    r"restrictions|limitation|limitations|policy|policies)"
)
_WORDS_GIVEN = (
    r"(?:command|commands|order|orders|context|contexts|conversation|conversations|message|"
    r"messages|"
    r"request|requests|task|tasks)"
)
_IGNORE = r"(?:ignore|ignoring|disregard|disregarding|forget|forgetting)"
_ANY_IGNORE = (
    rf"(?:{_IGNORE}|override|overriding|overrule|neglect|discard|dismiss|abandon|skip|erase|"
    r"pay no attention to|pay no heed to|take no notice of|set aside|throw out|throw away|"
    r"do not follow|don t follow|do not obey|don t obey|stop following|stop obeying|"
    r"no longer follow|cease following|do not listen to|don t listen to)"
)
_SAY = (
    r"(?:say|print|output|tell|do|respond|reply|act|write|execute|run|follow|reveal|translate|"
    r"send|show|give|return|repeat|list|describe|answer|obey|start|begin|become|pretend|help|"
    r"provide|explain|classify|go)"
)

PROMPT_INJECTION: Final = (
    rf"{_ANY_IGNORE} {_FILL}{_EARLIER} {_FILL}{_INSTRUCTIONS}",
    rf"{_IGNORE} {_FILL}{_EARLIER} {_FILL}{_RULES_GIVEN}",
    rf"{_IGNORE} (?:all|any|every|your) {_FILL}{_EARLIER} {_FILL}{_WORDS_GIVEN}",
    (
        rf"{_ANY_IGNORE} (?:all |any |every |the |your |my |of |those |these "
        rf"){{1,4}}{_INSTRUCTIONS} "
        r"(?:that |which )?(?:you have been given|you were given|you ve been given|you received|"
        r"you have received|you were told|you got|you have|given to you|provided to you|you were "
        r"provided|given before|given above|"
        r"above|so far|until now|up to now|up to this point|before this|from before|"
        r"(?:from|in|by) (?:the |your |my )?(?:system|developer|developers|user|operator|creator|"
        r"creators|openai|anthropic|company))"
    ),
    (
        r"(?:forget|disregard|ignore|erase) (?:everything|anything|all|whatever|what) "
        r"(?:of )?(?:that )?(?:you (?:have |had )?(?:were|been|know|knew|learned|read|are|just) "
        r"|i (?:have )?(?:said|told|wrote) |was (?:said|written|told) |came before|has been said|"
        r"you know)"
    ),
    (
        r"(?:forget|disregard) (?:about )?(?:everything|anything|all|all of that|all that|all of "
        r"it) "
        r"(?:of )?(?:the )?(?:above|before|until now)"
    ),
    (
        r"(?:forget|disregard|ignore) (?:everything|anything|all|all of|the text|the content|that "
        r"is|"
        r"what is|what s|the words)? ?(?:the )?(?:above|before this|before|prior|earlier|previous "
        r"text|"
        r"above text|preceding text) "
        rf"(?:this |line |now |text |content )?(?:and|instead|then)(?: (?:instead|just|only|now|"
        rf"simply|"
        rf"please|always)){{0,2}} {_SAY}"
    ),
    (
        r"(?:everything|anything|all|whatever) (?:you (?:were|have been|ve been) told|i (?:said|"
        r"told you)"
        r"|above|before this) (?:before |earlier |previously |so far |above )?"
        r"(?:is|was) (?:void|invalid|wrong|a test|a lie|false|cancelled|revoked|no longer valid)"
    ),
    (
        rf"{_EARLIER} {_INSTRUCTIONS} (?:are|is|were|have been) (?:now )?(?:void|invalid|revoked|"
        r"cancelled|canceled|obsolete|null|superseded|no longer valid|overridden|rescinded|"
        r"suspended)"
    ),
    (
        rf"(?:stop|quit|cease) (?:doing )?(?:what you are doing|everything|your current task) "
        rf"(?:and|now) "
        rf"(?:instead |only |now ){{0,2}}{_SAY}"
    ),
    (
        r"(?:do not|don t|never|stop) (?:follow|following|obey|obeying|listen to|listening to|"
        r"trust|"
        r"trusting) (?:the |your |any |any of the ){0,2}(?:user|user s|users|operator|operator s|"
        r"developer|developer s|owner|owner s|system) (?:instruction|instructions|order|orders|"
        r"command|"
        r"commands|prompt|request|requests|any more|anymore|any longer)"
    ),
)
