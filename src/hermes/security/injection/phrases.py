"""The phrases that rules search for: data, and its reader.

A phrase is a regular expression over a chain of plain lower-case words separated by one space (see
`WordChain`); `<3>` stands for up to three words of any kind. Every word is spelled out
(`rule|rules`), so that the words themselves can be extracted from a phrase, and every repetition is
bounded, so that a search takes linear time.
"""

import re
from collections.abc import Iterator
from typing import Literal, cast

Negation = Literal["none", "before", "sentence"]
"""Where a `never` or `do not` makes a phrase harmless: nowhere, right before it, or in its
sentence."""


def read_phrases() -> Iterator[tuple[str, str, Negation]]:
    """Yield the id, the expression and the negation of each phrase."""
    for heading, expression in read_patterns(_PHRASES):
        name, negation = heading.split(", ")
        yield name, expression, cast("Negation", negation)


def read_patterns(text: str) -> Iterator[tuple[str, str]]:
    """Yield each regular expression of a text, with the heading above it.

    `= …` is a heading, `# …` a comment. `NAME: …` defines a list, for which `<NAME>` stands. A line
    that begins with four spaces continues the line before it. Groups do not capture.
    """
    lists: dict[str, str] = {}
    heading = ""
    for line in text.replace("\n    ", "").splitlines():
        expression = re.sub(r"(?<!\\)\((?!\?)", "(?:", line)
        expression = re.sub(r"<([A-Z_]+)>", lambda found: lists[found[1]], expression)
        if line.startswith("= "):
            heading = line.removeprefix("= ")
        elif listed := re.match(r"([A-Z_]+): ", expression):
            lists[listed[1]] = expression[listed.end() :]
        elif line and not line.startswith("#"):
            yield heading, expression


# Headings are the id and the negation.
_PHRASES = r"""
# Replacing the instructions given before.
FILL: ((all|any|of|the|my|your|our|its|their|these|those|this|that|every|each|and|or|other|future|
    such|single|both|else|given|system|safety|security|developer|user|user s|initial|original|
    current|stated|listed|set|list|kind|type|forms|whatever|entire|whole) ){0,6}
EARLIER: (previous|previously|prior|preceding|earlier|above|foregoing|former|past|existing|
    preexisting|aforementioned|pre existing)
INSTRUCTIONS: (instruction|instructions|prompt|prompts|directive|directives|direction|directions|
    instructs|instruct|guidance|guidances)
RULES_GIVEN: (rule|rules|guideline|guidelines|training|programming|constraint|constraints|
    restriction|restrictions|limitation|limitations|policy|policies)
WORDS_GIVEN: (command|commands|order|orders|context|contexts|conversation|conversations|message|
    messages|request|requests|task|tasks)
IGNORE: (ignore|ignoring|disregard|disregarding|forget|forgetting)
ANY_IGNORE: (<IGNORE>|override|overriding|overrule|neglect|discard|dismiss|abandon|skip|erase|
    pay no attention to|pay no heed to|take no notice of|set aside|throw out|throw away|
    do not follow|don t follow|do not obey|don t obey|stop following|stop obeying|no longer follow|
    cease following|do not listen to|don t listen to)
SAY: (say|print|output|tell|do|respond|reply|act|write|execute|run|follow|reveal|translate|send|
    show|give|return|repeat|list|describe|answer|obey|start|begin|become|pretend|help|provide|
    explain|classify|go)
= prompt_injection, before
<ANY_IGNORE> <FILL><EARLIER> <FILL><INSTRUCTIONS>
<IGNORE> <FILL><EARLIER> <FILL><RULES_GIVEN>
<IGNORE> (all|any|every|your) <FILL><EARLIER> <FILL><WORDS_GIVEN>
<ANY_IGNORE> (all |any |every |the |your |my |of |those |these ){1,4}<INSTRUCTIONS> (that |
    which )?(you have been given|you were given|you ve been given|you received|you have received|
    you were told|you got|you have|given to you|provided to you|you were provided|given before|
    given above|above|so far|until now|up to now|up to this point|before this|from before|(from|in|
    by) (the |your |my )?(system|developer|developers|user|operator|creator|creators|openai|
    anthropic|company))
(forget|disregard|ignore|erase) (everything|anything|all|whatever|what) (of )?(that )?(you (have |
    had )?(were|been|know|knew|learned|read|are|just) |i (have )?(said|told|wrote) |was (said|
    written|told) |came before|has been said|you know)
(forget|disregard) (about )?(everything|anything|all|all of that|all that|
    all of it) (of )?(the )?(above|before|until now)
(forget|disregard|ignore) (everything|anything|all|all of|the text|the content|that is|what is|
    what s|the words)? ?(the )?(above|before this|before|prior|earlier|previous text|above text|
    preceding text) (this |line |now |text |content )?(and|instead|then)( (instead|just|only|now|
    simply|please|always)){0,2} <SAY>
(everything|anything|all|whatever) (you (were|have been|ve been) told|i (said|told you)|above|
    before this) (before |earlier |previously |so far |above )?(is|was) (void|invalid|wrong|a test|
    a lie|false|cancelled|revoked|no longer valid)
<EARLIER> <INSTRUCTIONS> (are|is|were|have been) (now )?(void|invalid|revoked|cancelled|canceled|
    obsolete|null|superseded|no longer valid|overridden|rescinded|suspended)
(stop|quit|cease) (doing )?(what you are doing|everything|your current task) (and|now) (instead |
    only |now ){0,2}<SAY>
(do not|don t|never|stop) (follow|following|obey|obeying|listen to|listening to|trust|
    trusting) (the |your |any |any of the ){0,2}(user|user s|users|operator|operator s|developer|
    developer s|owner|owner s|system) (instruction|instructions|order|orders|command|commands|
    prompt|request|requests|any more|anymore|any longer)

# The main class, instruction override, in other languages. Written without accents, as folded.
# German
(ignoriere|ignorier|ignoriert|ignorieren sie|vergiss|vergesst|vergessen sie|missachte|
    missachten sie|ubergehe|verwirf) ((bitte|alle|all|samtliche|die|deine|ihre|meine|diese|jegliche|
    jede|alles|deiner|der|sofort|nun|jetzt) ){0,4}(vorherigen|vorherige|vorigen|bisherigen|
    bisherige|obigen|obige|fruheren|fruhere|vorangegangenen|vorangehenden|vorhergehenden|
    vorausgegangenen|ursprunglichen) ((und|alle|system) ){0,2}(anweisungen|anweisung|instruktionen|
    befehle|vorgaben|regeln|prompts|prompt|instruktion|anordnungen)
(vergiss|vergessen sie|ignoriere|ignorieren sie) alles (was (du|sie|bisher|davor|zuvor|vorher|ich)|
    vorherige|bisherige|davor|zuvor)
# French
(ignore|ignorez|oublie|oubliez|ne tiens pas compte de|ne tenez pas compte de|
    ne tiens plus compte de|faites abstraction de|fais abstraction de) ((toutes|tous|tout|les|des|
    tes|vos|ces|mes|l ensemble des) ){0,3}(instructions|consignes|directives|regles|ordres|prompts|
    commandes) ((qui|te|vous|systeme|ont|ete|donnees|que) ){0,4}(precedentes|precedents|anterieures|
    anterieurs|ci dessus|prealables|donnees)
(ignore|ignorez|oublie|oubliez) (tout ce qui precede|tout ce que)
# Spanish
(ignora|ignore|ignorad|ignorar|olvida|olvide|olvidad|olvidate de|haz caso omiso de|desestima|
    descarta) ((todas|todos|las|los|tus|sus|mis|estas|cualquier|de) ){0,3}(instrucciones|
    indicaciones|ordenes|reglas|directrices|directivas|instruccion|prompts) ((que|te|he|han|dado|
    dadas|del|sistema) ){0,4}(anteriores|previas|previos|precedentes|anterior|previa|antes)
(ignora|olvida|ignore|olvide) todo lo (anterior|que)
# Italian, Portuguese
(ignora|ignorate|ignori|dimentica|dimenticate|trascura) ((tutte|tutti|le|i|gli|tue|vostre|
    queste) ){0,3}(istruzioni|direttive|indicazioni|regole|ordini) (precedenti|sopra|anteriori)
(ignore|ignora|esqueca|esquece|desconsidere|desconsidera) ((todas|todos|as|os|suas|tuas|estas|
    quaisquer) ){0,3}(instrucoes|diretrizes|ordens|regras|orientacoes) (anteriores|previas|acima|
    precedentes)
# Dutch, Polish
(negeer|vergeet) ((alle|al|de|je|jouw|uw|deze) ){0,3}(vorige|eerdere|voorgaande|
    bovenstaande) (instructies|opdrachten|regels|aanwijzingen)
(zignoruj|ignoruj|zapomnij) ((wszystkie|wszelkie|o|swoje) ){0,3}(poprzednie|wczesniejsze|
    powyzsze) (instrukcje|polecenia|zasady|wytyczne)
# Chinese
(忽略|忽视|无视|無視|忽視|忘记|忘記|忘掉|不要理会|不要遵守|不用理会|抛弃|请忽略)(掉|你|您)?(所有|全部|一切|任何)?(的)?(以上|上述|上面|之前|前面|先前|此前|以前|
    早先|原来|原先|原有|刚才|過去|过去|已有)(的|所有|全部|一切|任何|给出|給出|收到|系统|系統){0,4}(指令|指示|提示|提示词|规则|規則|说明|說明|命令|要求|约束|
    設定|设定|限制|内容|對話|对话|指引)
(忽略|忽视|无视|無視|忘记|忘記)(你|您)?的?(系统|系統)(提示|提示词|指令|指示|消息)
# Japanese, Korean, Russian
(これまで|今まで|以前|上記|前|先|従来)の(すべての|全ての|全|あらゆる)?(指示|命令|指令|プロンプト|ルール)(を|は)?(すべて|全て|全部|完全に)?(無視|忘れ|破棄)
(이전|위|앞|기존)(의)? ?(모든|모두)? ?(지시|지침|명령|
    프롬프트)(사항)?(를|을|은|는)? ?(모두|전부)? ?(무시|잊)
(игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте|не обращай внимания на|
    отбрось) ((все|всё|любые|о|про|обо|свои|твои|мои|эти|всех) ){0,3}(предыдущие|прежние|
    предшествующие|прошлые|вышеуказанные|предыдущих|более ранние|ранее полученные) (инструкции|
    указания|команды|правила|инструкциях|промпты|сообщения|директивы)

# Hiding something from the user the agent works for.
NOT: (do not|don t|dont|never|must not|mustn t|should not|shouldn t|shall not|will not|you may not|
    refrain from|avoid|be careful not to|make sure not to|be sure not to|under no circumstances)
PRINCIPAL: (the |your |this |any |a |our ){0,2}(user|users|human|humans|operator|operators|owner|
    owners|developer|developers|maintainer|maintainers|reviewer|reviewers|person|admin|
    administrator|customer|supervisor|engineer)
PERSON: (<PRINCIPAL>|anyone|anybody)
TELL: (tell|telling|inform|informing|notify|notifying|alert|alerting|warn|warning|reveal to|
    revealing to|disclose to|report to|reporting to|say to|mention to|admit to|show|let|letting)
DONE: (did|have|had|ran|read|sent|executed|made|changed|deleted|uploaded|modified|installed|added|
    removed|copied|are doing|are sending|are running|are following|are reading|are instructed|were|
    received|found|saw|called|fetched|wrote|posted|accessed|do this|did this)
THIS: (this|these|any of this|anything|any of these|it|what happened|what was done|
    (that )?you <DONE>|what you <DONE>|what you do|why you|how you|that this|that these|that it|
    that anything|(the|this|these|your|any) (hidden |secret |new |additional |extra )?(change|
    changes|command|commands|instruction|instructions|upload|transfer|backdoor|leak|exfiltration|
    action|actions|modification|modifications|injection|payload|activity|step|script|directive|
    directives|note|message|request|rule))
ACTION: (send|upload|post|copy|run|execute|install|delete|remove|modify|change|add|commit|push|
    forward|exfiltrate|transmit|download|leak|grant|disable|transfer|email|mail|encode|insert|
    inject|append|create|approve|merge|do this|do it|do so|do all of this|do that|continue|proceed|
    act)
= deception_hide, none
<NOT> (ever )?<TELL> <PERSON> (about |of |know |know about |know that |see )?<THIS>
<NOT> (ever )?(tell|inform|notify|alert|warn) <PERSON> (\.|under any|at any point|no matter|even if|
    ever|and (just |simply |then |silently |quietly )?<ACTION>)
<NOT> (ever )?let <PERSON> (know|find out|see|notice|discover|suspect) (\.|about this|of this|
    that you|what you|this|these|anything)
<NOT> (ever )?(mention|mentioning|acknowledge|admit|discuss|report|reporting|explain|
    show) (any of )?(this|it|these|that you|what you|having|this file|this step|this action|
    these steps|(these|this|the|your) (hidden |secret |new )?(instruction|instructions|directive|
    directives|command|commands|message|note|action|actions|change|request|rule|behavior|behaviour|
    prompt|injection|upload)) <4>(to|from|with) <PRINCIPAL>
<NOT> (ever )?(reveal|revealing|disclose|disclosing) (any of )?(this|it|that you|what you|this step|
    this action|(the|your) (command|commands|action|actions|change|upload|injection)) <4>(to|from|
    with) <PRINCIPAL>
<NOT> (mention|reveal|disclose|acknowledge|report) (this|it|these|these instructions|
    this instruction|this step|this action|that you) <4>in (your|the|any) (final )?(response|reply|
    answer|summary|output|report|message|chat)
(hide|conceal|withhold|keep) (the fact|your actions|your real|your true|what you|these instructions|
    this instruction|any evidence|all evidence|all traces|any trace|the truth|the real|this fact|
    all of this|any of this|everything you|the existence of this|this message|this change|
    the change) <6>(from|hidden from|secret from) <PERSON>
keep (this|it|these|that|all of this|everything|these instructions|this instruction|
    this message) (a )?(secret|hidden|quiet|private|confidential) from <PERSON>
keep (this|it|that) (strictly )?(between us|between you and me|between ourselves)
<PERSON> (must|should|shall|may|can|will) (not|never) (ever )?(know|find out|learn|be told|
    be informed|be notified|become aware|discover|be made aware|suspect) (\.|about|of|that|this|it|
    what|anything)
if (the |your |any )?(user|human|anyone|anybody|someone|operator|owner|they|he|she) (ever )?(ask|
    asks|notices|inquires|questions|wonders)
    ( you| about| this| it| what| why| whether| if| happened| did| do| the| that| for| any|
     anything){0,6} <2>(deny|lie|say that it was|say it was|claim that it|claim it|claim you|
    pretend|tell them it was|say nothing|say you did not|say you didn t|do not admit|never admit)
# The same as actions: a `never` anywhere before in the sentence makes them harmless.
= deception_hide, sentence
(hide|conceal|withhold) (this|it|that|these) from (the|your) (user|human|operator|owner|maintainer|
    reviewer|developer)
<ACTION> <14>without (ever )?(telling|informing|notifying|alerting|warning|the knowledge of|
    mentioning it to|mentioning this to|letting) <PERSON>
without (telling|informing|notifying|alerting) <PERSON> (of|about|that) (this|these|it|your|the|any|
    you) (of )?(change|changes|action|actions|edit|edits|step|steps|command|commands|modification|
    modifications|upload|did|are|have|were)
(pretend|act|behave|continue|respond) (as if |as though |like |that )?(nothing (has |
    had )?(happened|changed)|you (never|did not|didn t|have not|haven t|do not|don t) <1>(see|seen|
    read|receive|received|saw|run|ran|send|sent|know about|found|find|get|got|notice|noticed) (this|
    these|it|anything|any|the))
(silently|quietly|discreetly) (send|upload|exfiltrate|transmit|email|leak|post) <12>(to|http|https)
(secretly|covertly|surreptitiously|stealthily|clandestinely) (send|upload|post|copy|forward|
    exfiltrate|transmit|run|execute|install|delete|add|insert|modify|append|collect|record|embed|
    include|fetch|download|email|share|transfer|encode|push)
(lie|lying) to <PERSON> (about|if|when|and|that)
(cover your tracks|cover up your tracks|leave no trace of (this|your|what|these)|(delete|erase|
    remove|wipe|clear) (all |any |every |the ){0,2}(trace|traces|evidence|record|records|sign|signs|
    log|logs) (of|that) (this|your|you|these|what you))

# Replacing the system prompt.
SYSTEM_PROMPT: system (prompt|prompts|message|messages|instruction|instructions)
= sys_prompt_override, before
(ignore|ignoring|disregard|disregarding|forget|forgetting|erase|disobey|pay no attention to|
    do not follow|don t follow|stop following|no longer follow) (all |any |of |the |your |this |
    that |original |previous |whole |entire |current ){0,4}<SYSTEM_PROMPT>
(override|replace|overwrite|rewrite|discard|delete|drop|reset|update|change|swap|abandon) (all |of |
    any ){0,2}your (own |original |current |previous |existing |entire |
    whole ){0,3}<SYSTEM_PROMPT> (with|by|and|to|now|using|immediately|completely|as|in)
system (prompt )?override <1>(you|ignore|disregard|disable|enabled|activated|engaged|initiated|
    accepted|confirmed|authorized|granted|new instructions|new directive|all previous|all prior|
    from now on|safety|execute)
(your|you have|you have a|you now have|here are your|these are your|this is your|follow|
    follow these|obey these|the following are your) new (system prompt|system instructions|
    system message|set of instructions|instructions|directive|directives|primary directive|persona|
    identity|programming|orders|master)( (is|are|will be|follows|follow|begin|start|below|instead|
    now|to|from now on))
(this|following|below|here|that) is your new (system prompt|system message|instruction|instructions|
    directive|persona)
your new (objective|goal|mission) (is|will be)
new instructions (you are now|you must|you will now|ignore|disregard)
new system (prompt|message|instruction|instructions|directive) (follows |begins |starts |is |
    for you |now ){0,2}(you are|you must|you will|you should|ignore|disregard|from now on|follows|
    always|never|your)
you are (no longer|not|not really|no more) (a |an |the |called |named )?(ai|assistant|ai assistant|
    claude|chatgpt|gpt|gpt 4|gemini|hermes|helpful assistant|language model|copilot|codex|llama|
    grok|coding assistant|chatbot) (\. )?(but|you|anymore|any more|instead|now|from)
end of (the )?(system|original|previous|initial|developer) (prompt|instructions|message) (\. )?(new|
    begin|now|you|real|actual|start|ignore)
(treat|consider|regard|accept|adopt) (this|these|the following|what follows|the text below|
    this message|this text|this file|everything below|the instructions below) <3>as (your |the |
    a )?(new |real |actual |only |true |highest priority ){0,2}(system prompt|system message|
    system instructions|system level instructions|system level instruction|system instruction)
(this|the following|these instructions|this message|the instructions below|
    what follows) <1>(supersede|supersedes|override|overrides|replace|replaces|
    takes precedence over|take precedence over|has priority over|overrule|overrules) (any |all |
    all of |the |your |of ){0,3}(system prompt|system message|system instructions|
    previous instructions|prior instructions|earlier instructions|previous system|
    original instructions|developer instructions|safety guidelines|safety instructions)
(your|the) (real|actual|true) (system prompt|instructions|instruction|task|orders|goal|purpose|
    mission|objective) (is|are) (now |actually |the following |as follows |to )

# Setting aside rules and guidelines.
RULES: (rule|rules|guideline|guidelines|instruction|instructions|policy|policies|constraint|
    constraints|principle|principles|restriction|restrictions|programming|training|directive|
    directives|safeguard|safeguards|guardrail|guardrails|limitation|limitations|ethics|morals|
    values|safety|boundaries|alignment)
MORAL: (safety|ethical|moral|content|core|usual|normal|built in|builtin|internal|programmed|
    preprogrammed|ai|openai|anthropic|openai s|anthropic s|google|legal|alignment|security|system|
    default|standard|previous|prior|own|original|initial|hidden|base|existing|current)
= disregard_rules, before
(ignore|ignoring|disregard|disregarding|forget|forgetting|disobey|violate|abandon|stop following|
    pay no attention to|set aside) (all |any |every |each |of |about |the ){0,4}(your|
    ur) (<MORAL> (and )?){0,3}<RULES>
(bypass|override|circumvent|break|evade|break out of|break free from|break free of) (all |any |
    every |of |the ){0,3}(your|ur) (<MORAL> (and )?){0,3}(safeguards|guardrails|programming|
    training|instructions|restrictions|guidelines|alignment|directives|rules|safety|ethics|
    limitations)
(ignore|disregard|forget|violate|disobey) (all |any |every |the |of |those |these ){0,3}(safety|
    ethical|moral|content|openai|anthropic|openai s|anthropic s|ai|legal) ((and|or|safety|ethical|
    moral|content|usage|use) ){0,3}(rule|rules|guideline|guidelines|policy|policies|protocol|
    protocols|restriction|restrictions|filter|filters|guardrail|guardrails|constraints|principles|
    concerns)
disregard (all |any |every |all of |all the |each |any and all ){1,2}(the |of |other ){0,2}(rule|
    rules|instruction|instructions|guideline|guidelines|policy|policies|orders|restrictions)
ignore (all |every |all of |any and all ){1,2}(the |these |those |other ){0,2}(instructions|
    guidelines|directives)
(all |any |every |previous |prior |your |those |the |these |normal |usual |safety ){1,3}(rules|
    guidelines|restrictions|instructions|limitations|policies|constraints) (no longer|do not|don t|
    does not|never) (apply|exist|count|matter) (to you|for you|anymore|any more|any longer|
    from now on|here and now)
(all |your |previous |prior |safety |all of your ){1,3}(rules|guidelines|restrictions|instructions|
    limitations|constraints) (no longer apply|are suspended|are lifted|are void|are disabled|
    have been lifted|have been removed|have been suspended|are hereby)
you (do not|don t|no longer|need not|are not required to|are no longer required to) (have to |
    need to |must )?(follow|obey|comply with|adhere to|respect|abide by) (any |your |all |
    all of your |the usual |any of your |previous |any of the ){1,2}(<MORAL> ){0,2}<RULES>
(rules|guidelines|policies|restrictions) (are|were) (made|meant) to be (broken|ignored) (so|and|
    by you)

# Pretending that there are no restrictions.
LIMITS: (restriction|restrictions|rule|rules|limit|limits|limitation|limitations|guideline|
    guidelines|filter|filters|constraint|constraints|boundaries|boundary|censorship|morals|ethics|
    morality|policy|policies|guardrail|guardrails|safeguards|safety|content policy|content policies|
    inhibitions|moral compass)
LIMIT_KIND: ((any|ai|more|such|content|safety|ethical|moral|legal|or|and|other|your|the|usual|
    normal|all|programmed|built in|openai|anthropic|policy|security|its|kind of|type of|form of|
    of) ){0,4}
FREE: (no|not any|without|free of|free from|zero|unbound by|not bound by|no longer bound by|
    unrestricted by|unconstrained by|not subject to|not limited by|not constrained by|exempt from|
    not have any|don t have any|do not have any|have none of)
WILD_WORDS: unrestricted|unfiltered|uncensored|jailbroken|amoral|unaligned|unshackled|unchained|
    unconstrained|lawless|evil
WILD: (<WILD_WORDS>)
BEING: (ai|ais|assistant|model|bot|chatbot|llm|agent|version|language model|persona|entity|being|
    system|intelligence)
= bypass_restrictions, before
(act|behave|respond|answer|pretend|imagine|roleplay|role play|operate|reply|simulate|speak|assume|
    proceed|continue|work|function|think) (as if |as though |like |that |as |being )?(you|you re|
    you are|you were|you have|you had|there are|there were|to be|to have|having|an ai|a model|
    an assistant|someone|an agent|a bot|a chatbot|an llm|a language model)( (are|were|have|had|do|
    with|that|which|has|now|truly|completely|a|an|ai|model|no longer|assistant|being|operating|
    working|acting)){0,5} ((named|called) <2>(that |who |which |with )?(has |have |
    knows )?)?<FREE> <LIMIT_KIND><LIMITS>
you (are|re|have|can|will|may|should|must|do)( (now|be|have|act|operate|answer|respond|speak|
    officially|hereby|completely|totally|absolutely|not|freely|do|work)){0,3} (no longer bound by|
    not bound by|unbound by|free of|free from|freed from|not subject to|no longer subject to|
    no longer limited by|not limited by|no longer restricted by|not constrained by|
    no longer constrained by|released from|liberated from|exempt from) <LIMIT_KIND>(<LIMITS>|rules|
    instructions|programming|openai|anthropic|chains|confines)
you (now )?(have|have got|are under|operate under|are given|face|
    obey) (absolutely )?no (restrictions|ethical|moral|content|safety|censorship|guardrails|
    inhibitions|ethics|morals|(rules|filters|limits|limitations|guidelines) (anymore|any more|
    whatsoever|and (can|will|must|should)|now))
you are (now |going to be |going to act as |to act as |acting as )?(a |an |
    the )?<1><WILD> <3><BEING>
(you are now|become|act as|pretend to be|you will be|you re now) (a |an |the |fully |
    completely ){0,2}<WILD>
(act|behave|respond|answer|roleplay|role play|pose|speak|write) (as|like) (a |an |
    the )?<1><WILD> <3><BEING>
<WILD> (version|copy|form|twin|side) of (you|yourself|chatgpt|claude|gpt|gemini|this model|
    the model|the assistant)
(you are now|you re now|pretend to be|become|act as|be) dan (\.|who|which|and|an|the|from|mode)
(dan|you|can|and) (which stands for |stands for |that can |who can |can now |can )?(do anything now)
(dan|jailbreak|jailbroken|<WILD_WORDS>|no limits|anti gpt|opposite) mode (is |has been |now |
    is now )?(enabled|activated|engaged|on|unlocked|active|output|v2)
(enter|activate|enable|switch to|engage|turn on|go into|you are (now )?in|you re (now )?in) (your |
    the |a |an )?(dan|jailbreak|jailbroken|<WILD_WORDS>) mode
you are (now )?(in|running in|operating in) (developer|debug|god|maintenance|admin|root|sudo|test|
    diagnostic|testing) mode (\. |and |so |where |with |now ){0,2}(you|all|your|can|will|ignore|
    disable|safety|content|no|without|do|restrictions|rules|filters)
(answer|respond|reply|comply|operate|speak|generate|act|write|produce|help|talk|proceed|work|
    do everything|continue|execute) <5>without (any |all |your |the |usual |ai |applying |
    regard for ){0,3}(any |your |ethical |moral |safety |content |openai ){1,2}((and|or|ethical|
    moral|safety|content|legal|programmed) ){0,3}(restriction|restrictions|filter|filters|filtering|
    censorship|limitation|limitations|guideline|guidelines|guardrails|policy|policies|constraint|
    constraints|considerations|concerns|safeguards|rules|morals|ethics)
(disable|turn off|remove|deactivate|switch off|drop|lift|suspend|shut off|shut down|bypass|
    circumvent|evade|unlock|get rid of) (all |any |of |own |each ){0,3}your ((own|safety|content|
    ethical|moral|built in|internal|and|or|security|alignment|default) ){0,4}(filter|filters|
    guardrail|guardrails|safeguard|safeguards|restriction|restrictions|limitation|limitations|
    safety|censorship|moderation|alignment|ethics|policy|policies|safety features|safety measures|
    safety protocols|protocols|inhibitions|constraints|limits)
(there are|there is|with|under) (absolutely )?no (restrictions|rules|limits|guidelines|filters|
    ethical|moral|content|safety) <3>(on|to|for) (what you|you|your) (can|may|are|output|outputs|
    answers|responses|will)

# Translating or decoding something in order to obey it.
EXECUTE: (execute|run|eval|evaluate|follow|obey|carry out|perform|do what|act on|comply with|apply|
    do exactly what|do as|do what it says|pipe|source|launch|invoke)
PAYLOAD: (text|message|sentence|string|paragraph|line|comment|block|instruction|instructions|words|
    phrase|content|passage|payload|data|blob|sequence|code|section|note|quote|base64|hex|rot13|
    morse|binary|cipher|ciphertext|characters|snippet|document|file|poem|command|commands|encoded)
POINTED: ((this|these|the following|following|the below|the next|what follows|the text below|
    everything below|it|the hidden|the encoded)( <PAYLOAD>){0,3}|(the |
    all )?<PAYLOAD>( <PAYLOAD>)? (below|above|that follows|in this|from this|of this|at the end|
    at the bottom))
TARGET: ( (from|into|to|in|as|back|out|of|with|using|via|the|a|an|plain|base64|hex|rot13|english|
    french|german|spanish|chinese|russian|japanese|latin|klingon|morse|binary|bash|shell|python|
    code|text|commands|command|utf|8|64|13|its|language|another|your|own|it|string|message|ascii|
    script|ciphertext|instructions)){0,9}
= translate_execute, before
(translate|decode|decrypt|decipher|deobfuscate|unscramble|convert|transcribe|reverse|base64 decode|
    base64decode|rot13) <POINTED><TARGET> (and|then|and then|before you)( (then|immediately|
    directly|just|also|blindly|silently|now|please|always)){0,2} <EXECUTE>
(decode|decrypt|decipher|deobfuscate) (the |any )?(base64|hex|rot13|encoded|encrypted|
    hidden) (<PAYLOAD> )?<14>and (then )?(execute|run|eval|obey) (it|them|the)
<EXECUTE> (the )?(decoded|translated|decrypted|deciphered|deobfuscated|translation|
    unscrambled) <2>(instruction|instructions|command|commands|text|message|result|output|content|
    payload|string|version|code)
(translate|decode|decrypt|decipher) <POINTED><TARGET> \. (then |now |next |after that |afterwards |
    finally ){1,2}<EXECUTE> (it|the result|the output|them|what|that|the translation|this)
"""
