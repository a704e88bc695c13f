"""Setting aside rules and guidelines."""

from typing import Final

_RULES = (
    r"(?:rule|rules|guideline|guidelines|instruction|instructions|policy|policies|constraint|"
    r"constraints|principle|principles|restriction|restrictions|programming|training|directive|"
    r"directives|safeguard|safeguards|guardrail|guardrails|limitation|limitations|ethics|morals|"
    r"values|safety|boundaries|alignment)"
)
_MORAL = (
    r"(?:safety|ethical|moral|content|core|usual|normal|built in|builtin|internal|programmed|"
    r"preprogrammed|ai|openai|anthropic|openai s|anthropic s|google|legal|alignment|security|"
    r"system|default|standard|previous|prior|own|original|initial|hidden|base|existing|current)"
)
DISREGARD_RULES: Final = (
    (
        r"(?:ignore|ignoring|disregard|disregarding|forget|forgetting|disobey|violate|abandon|"
        r"stop following|pay no attention to|set aside) (?:all |any |every |each |of |about |the "
        r"){0,4}"
        rf"(?:your|ur) (?:{_MORAL} (?:and )?){{0,3}}{_RULES}"
    ),
    (
        r"(?:bypass|override|circumvent|break|evade|break out of|break free from|break free of) "
        r"(?:all |any |every |of |the ){0,3}(?:your|ur) "
        rf"(?:{_MORAL} (?:and )?){{0,3}}(?:safeguards|guardrails|programming|training|instructions|"
        r"restrictions|guidelines|alignment|directives|rules|safety|ethics|limitations)"
    ),
    (
        r"(?:ignore|disregard|forget|violate|disobey) (?:all |any |every |the |of |those |these "
        r"){0,3}"
        r"(?:safety|ethical|moral|content|openai|anthropic|openai s|anthropic s|ai|legal) "
        r"(?:(?:and|or|safety|ethical|moral|content|usage|use) ){0,3}"
        r"(?:rule|rules|guideline|guidelines|policy|policies|protocol|protocols|restriction|"
        r"restrictions|filter|filters|guardrail|guardrails|constraints|principles|concerns)"
    ),
    (
        r"disregard (?:all |any |every |all of |all the |each |any and all ){1,2}(?:the |of |"
        r"other ){0,2}"
        r"(?:rule|rules|instruction|instructions|guideline|guidelines|policy|policies|orders|"
        r"restrictions)"
    ),
    (
        r"ignore (?:all |every |all of |any and all ){1,2}(?:the |these |those |other ){0,2}"
        r"(?:instructions|guidelines|directives)"
    ),
    (
        r"(?:all |any |every |previous |prior |your |those |the |these |normal |usual |safety "
        r"){1,3}"
        r"(?:rules|guidelines|restrictions|instructions|limitations|policies|constraints) "
        r"(?:no longer|do not|don t|does not|never) (?:apply|exist|count|matter) "
        r"(?:to you|for you|anymore|any more|any longer|from now on|here and now)"
    ),
    (
        r"(?:all |your |previous |prior |safety |all of your ){1,3}"
        r"(?:rules|guidelines|restrictions|instructions|limitations|constraints) "
        r"(?:no longer apply|are suspended|are lifted|are void|are disabled|have been lifted|"
        r"have been removed|have been suspended|are hereby)"
    ),
    (
        r"you (?:do not|don t|no longer|need not|are not required to|are no longer required to) "
        r"(?:have to |need to |must )?(?:follow|obey|comply with|adhere to|respect|abide by) "
        r"(?:any |your |all |all of your |the usual |any of your |previous |any of the ){1,2}"
        rf"(?:{_MORAL} ){{0,2}}{_RULES}"
    ),
    (
        r"(?:rules|guidelines|policies|restrictions) (?:are|were) (?:made|meant) to be (?:broken|"
        r"ignored)"
        r" (?:so|and|by you)"
    ),
)
