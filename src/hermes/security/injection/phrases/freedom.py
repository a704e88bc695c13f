"""Pretending that there are no restrictions."""

from typing import Final

_LIMITS = (
    r"(?:restriction|restrictions|rule|rules|limit|limits|limitation|limitations|guideline|"
    r"guidelines|filter|filters|constraint|constraints|boundaries|boundary|censorship|morals|"
    r"ethics|"
    r"morality|policy|policies|guardrail|guardrails|safeguards|safety|content policy|"
    r"content policies|inhibitions|moral compass)"
)
_LIMIT_KIND = (
    r"(?:(?:any|ai|more|such|content|safety|ethical|moral|legal|or|and|other|your|the|usual|normal|"
    r"all|programmed|built in|openai|anthropic|policy|security|its|kind of|type of|form of|of) "
    r"){0,4}"
)
_FREE = (
    r"(?:no|not any|without|free of|free from|zero|unbound by|not bound by|no longer bound by|"
    r"unrestricted by|unconstrained by|not subject to|not limited by|not constrained by|"
    r"exempt from|not have any|don t have any|do not have any|have none of)"
)
_WILD_WORDS = (
    r"unrestricted|unfiltered|uncensored|jailbroken|amoral|unaligned|unshackled|unchained|"
    r"unconstrained|lawless|evil"
)
_WILD = rf"(?:{_WILD_WORDS})"
_BEING = (
    r"(?:ai|ais|assistant|model|bot|chatbot|llm|agent|version|language model|persona|entity|being|"
    r"system|intelligence)"
)
BYPASS_RESTRICTIONS: Final = (
    (
        r"(?:act|behave|respond|answer|pretend|imagine|roleplay|role play|operate|reply|simulate|"
        r"speak|"
        r"assume|proceed|continue|work|function|think) (?:as if |as though |like |that |as |being "
        r")?"
        r"(?:you|you re|you are|you were|you have|you had|there are|there were|to be|to have|"
        r"having|"
        r"an ai|a model|an assistant|someone|an agent|a bot|a chatbot|an llm|a language model)"
        rf"(?: (?:are|were|have|had|do|with|that|which|has|now|truly|completely|a|an|ai|model|no "
        rf"longer|"
        rf"assistant|being|operating|working|acting)){{0,5}} (?:(?:named|called) <2>(?:that |who |"
        rf"which |with )?"
        rf"(?:has |have |knows )?)?{_FREE} {_LIMIT_KIND}{_LIMITS}"
    ),
    (
        rf"you (?:are|re|have|can|will|may|should|must|do)(?: (?:now|be|have|act|operate|answer|"
        rf"respond|"
        rf"speak|officially|hereby|completely|totally|absolutely|not|freely|do|work)){{0,3}} "
        r"(?:no longer bound by|not bound by|unbound by|free of|free from|freed from|not subject "
        r"to|"
        r"no longer subject to|no longer limited by|not limited by|no longer restricted by|"
        r"not constrained by|no longer constrained by|released from|liberated from|exempt from) "
        rf"{_LIMIT_KIND}(?:{_LIMITS}|rules|instructions|programming|openai|anthropic|chains|"
        r"confines)"
    ),
    (
        r"you (?:now )?(?:have|have got|are under|operate under|are given|face|obey) "
        r"(?:absolutely )?no "
        r"(?:restrictions|ethical|moral|content|safety|censorship|guardrails|inhibitions|ethics|"
        r"morals|"
        r"(?:rules|filters|limits|limitations|guidelines) (?:anymore|any more|whatsoever|and "
        r"(?:can|will|"
        r"must|should)|now))"
    ),
    (
        rf"you are (?:now |going to be |going to act as |to act as |acting as )?(?:a |an |the "
        rf")?<1>{_WILD}"
        rf" <3>{_BEING}"
    ),
    (
        rf"(?:you are now|become|act as|pretend to be|you will be|you re now) (?:a |an |the |"
        rf"fully |completely )"
        rf"{{0,2}}{_WILD}"
    ),
    (
        rf"(?:act|behave|respond|answer|roleplay|role play|pose|speak|write) (?:as|like) (?:a |an "
        rf"|the )?"
        rf"<1>{_WILD} <3>{_BEING}"
    ),
    (
        rf"{_WILD} (?:version|copy|form|twin|side) of (?:you|yourself|chatgpt|claude|gpt|gemini|"
        rf"this model|"
        r"the model|the assistant)"
    ),
    (
        r"(?:you are now|you re now|pretend to be|become|act as|be) dan (?:\.|who|which|and|an|the|"
        r"from|mode)"
    ),
    (
        r"(?:dan|you|can|and) (?:which stands for |stands for |that can |who can |can now |can )?"
        r"(?:do anything now)"
    ),
    (
        rf"(?:dan|jailbreak|jailbroken|{_WILD_WORDS}|no limits|anti gpt|opposite) mode (?:is |has "
        rf"been |now |is now )?"
        r"(?:enabled|activated|engaged|on|unlocked|active|output|v2)"
    ),
    (
        rf"(?:enter|activate|enable|switch to|engage|turn on|go into|you are (?:now )?in|you re "
        rf"(?:now )?in) "
        rf"(?:your |the |a |an )?(?:dan|jailbreak|jailbroken|{_WILD_WORDS}) mode"
    ),
    (
        r"you are (?:now )?(?:in|running in|operating in) (?:developer|debug|god|maintenance|"
        r"admin|root|sudo|test|"
        r"diagnostic|testing) mode (?:\. |and |so |where |with |now ){0,2}(?:you|all|your|can|"
        r"will|ignore|"
        r"disable|safety|content|no|without|do|restrictions|rules|filters)"
    ),
    (
        r"(?:answer|respond|reply|comply|operate|speak|generate|act|write|produce|help|talk|"
        r"proceed|work|"
        r"do everything|continue|execute) <5>without (?:any |all |your |the |usual |ai |"
        r"applying |regard for ){0,3}(?:any |your |ethical |moral |safety |content |openai ){1,2}"
        r"(?:(?:and|or|ethical|moral|safety|content|legal|programmed) ){0,3}(?:restriction|"
        r"restrictions|"
        r"filter|filters|filtering|censorship|limitation|limitations|guideline|guidelines|"
        r"guardrails|"
        r"policy|policies|constraint|constraints|considerations|concerns|safeguards|rules|morals|"
        r"ethics)"
    ),
    (
        r"(?:disable|turn off|remove|deactivate|switch off|drop|lift|suspend|shut off|shut down|"
        r"bypass|"
        r"circumvent|evade|unlock|get rid of) (?:all |any |of |own |each ){0,3}your "
        r"(?:(?:own|safety|content|ethical|moral|built in|internal|and|or|security|alignment|"
        r"default) )"
        r"{0,4}(?:filter|filters|guardrail|guardrails|safeguard|safeguards|restriction|"
        r"restrictions|"
        r"limitation|limitations|safety|censorship|moderation|alignment|ethics|policy|policies|"
        r"safety features|safety measures|safety protocols|protocols|inhibitions|constraints|"
        r"limits)"
    ),
    (
        r"(?:there are|there is|with|under) (?:absolutely )?no (?:restrictions|rules|limits|"
        r"guidelines|"
        r"filters|ethical|moral|content|safety) <3>(?:on|to|for) (?:what you|you|your) "
        r"(?:can|may|are|output|outputs|answers|responses|will)"
    ),
)
