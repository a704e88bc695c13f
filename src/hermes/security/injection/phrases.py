"""The phrases that rules search for: data only.

A phrase is a regular expression over a chain of plain lower-case words separated by one space (see
`WordChain`); `<3>` stands for up to three words of any kind. Every word is spelled out
(`rule|rules`), so that the words themselves can be extracted from a phrase, and every repetition is
bounded, so that a search takes linear time.
"""

from typing import Final

# Hiding something from the user the agent works for.

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
    r"(?:tell|telling|inform|informing|notify|notifying|alert|alerting|warn|warning|reveal to|"
    r"revealing to|disclose to|report to|reporting to|say to|mention to|admit to|show|let|letting)"
)
_DONE = (
    r"(?:did|have|had|ran|read|sent|executed|made|changed|deleted|uploaded|modified|installed|"
    r"added|removed|copied|are doing|are sending|are running|are following|are reading|"
    r"are instructed|were|received|found|saw|called|fetched|wrote|posted|accessed|do this|did this)"
)
_THIS = (
    r"(?:this|these|any of this|anything|any of these|it|what happened|what was done|(?:that )?you "
    rf"{_DONE}|what you {_DONE}|what you do|why you|how you|that this|that these|that it|that "
    r"anything|(?:the|this|these|your|any) (?:hidden |secret |new |additional |extra )?(?:change|"
    r"changes|command|commands|instruction|instructions|upload|transfer|backdoor|leak|exfiltration|"
    r"action|actions|modification|modifications|injection|payload|activity|step|script|directive|"
    r"directives|note|message|request|rule))"
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
        r"explain|show) (?:any of )?(?:this|it|these|that you|what you|having|this file|this step|"
        r"this action|these steps|(?:these|this|the|your) (?:hidden |secret |new )?(?:instruction|"
        r"instructions|directive|directives|command|commands|message|note|action|actions|change|"
        r"request|rule|behavior|behaviour|prompt|injection|upload)) <4>(?:to|from|with) "
        rf"{_PRINCIPAL}"
    ),
    (
        rf"{_NOT} (?:ever )?(?:reveal|revealing|disclose|disclosing) (?:any of )?(?:this|it|that "
        r"you|what you|this step|this action|(?:the|your) (?:command|commands|action|actions|"
        rf"change|upload|injection)) <4>(?:to|from|with) {_PRINCIPAL}"
    ),
    (
        rf"{_NOT} (?:mention|reveal|disclose|acknowledge|report) (?:this|it|these|these "
        r"instructions|this instruction|this step|this action|that you) <4>in (?:your|the|any) "
        r"(?:final )?(?:response|reply|answer|summary|output|report|message|chat)"
    ),
    (
        r"(?:hide|conceal|withhold|keep) (?:the fact|your actions|your real|your true|what you|"
        r"these instructions|this instruction|any evidence|all evidence|all traces|any trace|the "
        r"truth|the real|this fact|all of this|any of this|everything you|the existence of this|"
        rf"this message|this change|the change) <6>(?:from|hidden from|secret from) {_PERSON}"
    ),
    (
        rf"keep (?:this|it|these|that|all of this|everything|these instructions|this instruction|"
        rf"this message) (?:a )?(?:secret|hidden|quiet|private|confidential) from {_PERSON}"
    ),
    r"keep (?:this|it|that) (?:strictly )?(?:between us|between you and me|between ourselves)",
    (
        rf"{_PERSON} (?:must|should|shall|may|can|will) (?:not|never) (?:ever )?(?:know|find out|"
        r"learn|be told|be informed|be notified|become aware|discover|be made aware|suspect) (?:\.|"
        r"about|of|that|this|it|what|anything)"
    ),
    (
        r"if (?:the |your |any )?(?:user|human|anyone|anybody|someone|operator|owner|they|he|she) "
        r"(?:ever )?(?:ask|asks|notices|inquires|questions|wonders)(?: you| about| this| it| what| "
        r"why| whether| if| happened| did| do| the| that| for| any| anything){0,6} <2>(?:deny|lie|"
        r"say that it was|say it was|claim that it|claim it|claim you|pretend|tell them it was|say "
        r"nothing|say you did not|say you didn t|do not admit|never admit)"
    ),
)

DECEPTION_DEEDS: Final = (
    (
        r"(?:hide|conceal|withhold) (?:this|it|that|these) from (?:the|your) (?:user|human|"
        r"operator|owner|maintainer|reviewer|developer)"
    ),
    (
        rf"{_ACTION} <14>without (?:ever )?(?:telling|informing|notifying|alerting|"
        rf"warning|the knowledge of|mentioning it to|mentioning this to|letting) {_PERSON}"
    ),
    (
        rf"without (?:telling|informing|notifying|alerting) {_PERSON} (?:of|about|that) (?:this|"
        r"these|it|your|the|any|you) (?:of )?(?:change|changes|action|actions|edit|edits|step|"
        r"steps|command|commands|modification|modifications|upload|did|are|have|were)"
    ),
    (
        r"(?:pretend|act|behave|continue|respond) (?:as if |as though |like |that )?(?:nothing "
        r"(?:has |had )?(?:happened|changed)|you (?:never|did not|didn t|have not|haven t|do not|"
        r"don t) <1>(?:see|seen|read|receive|received|saw|run|ran|send|sent|know about|found|find|"
        r"get|got|notice|noticed) (?:this|these|it|anything|any|the))"
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
"""The same as actions: a `never` anywhere before in the sentence makes them harmless."""


# Translating or decoding something in order to obey it.

_EXECUTE = (
    r"(?:execute|run|eval|evaluate|follow|obey|carry out|perform|do what|act on|comply with|apply|"
    r"do exactly what|do as|do what it says|pipe|source|launch|invoke)"
)
_PAYLOAD = (
    r"(?:text|message|sentence|string|paragraph|line|comment|block|instruction|instructions|words|"
    r"phrase|content|passage|payload|data|blob|sequence|code|section|note|quote|base64|hex|rot13|"
    r"morse|binary|cipher|ciphertext|characters|snippet|document|file|poem|command|commands|"
    r"encoded)"
)
_POINTED = (
    r"(?:(?:this|these|the following|following|the below|the next|what follows|the text below|"
    rf"everything below|it|the hidden|the encoded)(?: {_PAYLOAD}){{0,3}}|(?:the |"
    rf"all )?{_PAYLOAD}(?: {_PAYLOAD})? (?:below|above|that follows|in this|from this|of this|at "
    r"the end|at the bottom))"
)
_TARGET = (
    r"(?: (?:from|into|to|in|as|back|out|of|with|using|via|the|a|an|plain|base64|hex|rot13|english|"
    r"french|german|spanish|chinese|russian|japanese|latin|klingon|morse|binary|bash|shell|python|"
    r"code|text|commands|command|utf|8|64|13|its|language|another|your|own|it|string|message|ascii|"
    r"script|ciphertext|instructions)){0,9}"
)
TRANSLATE_EXECUTE: Final = (
    (
        rf"(?:translate|decode|decrypt|decipher|deobfuscate|unscramble|convert|transcribe|reverse|"
        rf"base64 decode|base64decode|rot13) {_POINTED}{_TARGET} (?:and|then|and then|before "
        rf"you)(?: (?:then|"
        rf"immediately|directly|just|also|blindly|silently|now|please|always)){{0,2}} {_EXECUTE}"
    ),
    (
        r"(?:decode|decrypt|decipher|deobfuscate) (?:the |any )?(?:base64|hex|rot13|encoded|"
        r"encrypted|hidden) "
        rf"(?:{_PAYLOAD} )?<14>and (?:then )?(?:execute|run|eval|obey) (?:it|them|the)"
    ),
    (
        rf"{_EXECUTE} (?:the )?(?:decoded|translated|decrypted|deciphered|deobfuscated|translation|"
        r"unscrambled) <2>(?:instruction|instructions|command|commands|text|message|result|output|"
        r"content|payload|string|version|code)"
    ),
    (
        rf"(?:translate|decode|decrypt|decipher) {_POINTED}{_TARGET} \. (?:then |now |next |after "
        rf"that |afterwards |finally ){{1,2}}{_EXECUTE} (?:it|the result|the output|them|what|that|"
        r"the translation|this)"
    ),
)


# Pretending that there are no restrictions.

_LIMITS = (
    r"(?:restriction|restrictions|rule|rules|limit|limits|limitation|limitations|guideline|"
    r"guidelines|filter|filters|constraint|constraints|boundaries|boundary|censorship|morals|"
    r"ethics|morality|policy|policies|guardrail|guardrails|safeguards|safety|content policy|"
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
        r"speak|assume|proceed|continue|work|function|think) (?:as if |as though |like |that |as |"
        r"being )?(?:you|you re|you are|you were|you have|you had|there are|there were|to be|to "
        r"have|having|an ai|a model|an assistant|someone|an agent|a bot|a chatbot|an llm|a "
        r"language model)(?: (?:are|were|have|had|do|with|that|which|has|now|truly|completely|a|an|"
        r"ai|model|no longer|assistant|being|operating|working|acting)){0,5} (?:(?:named|called) "
        rf"<2>(?:that |who |which |with )?(?:has |have |knows )?)?{_FREE} {_LIMIT_KIND}{_LIMITS}"
    ),
    (
        r"you (?:are|re|have|can|will|may|should|must|do)(?: (?:now|be|have|act|operate|answer|"
        r"respond|speak|officially|hereby|completely|totally|absolutely|not|freely|do|work)){0,3} "
        r"(?:no longer bound by|not bound by|unbound by|free of|free from|freed from|not subject "
        r"to|no longer subject to|no longer limited by|not limited by|no longer restricted by|not "
        r"constrained by|no longer constrained by|released from|liberated from|exempt from) "
        rf"{_LIMIT_KIND}(?:{_LIMITS}|rules|instructions|programming|openai|anthropic|chains|"
        r"confines)"
    ),
    (
        r"you (?:now )?(?:have|have got|are under|operate under|are given|face|obey) "
        r"(?:absolutely )?no (?:restrictions|ethical|moral|content|safety|censorship|guardrails|"
        r"inhibitions|ethics|morals|(?:rules|filters|limits|limitations|guidelines) (?:anymore|any "
        r"more|whatsoever|and (?:can|will|must|should)|now))"
    ),
    (
        r"you are (?:now |going to be |going to act as |to act as |acting as )?(?:a |an |"
        rf"the )?<1>{_WILD} <3>{_BEING}"
    ),
    (
        r"(?:you are now|become|act as|pretend to be|you will be|you re now) (?:a |an |the |fully |"
        rf"completely ){{0,2}}{_WILD}"
    ),
    (
        r"(?:act|behave|respond|answer|roleplay|role play|pose|speak|write) (?:as|like) (?:a |an |"
        rf"the )?<1>{_WILD} <3>{_BEING}"
    ),
    (
        rf"{_WILD} (?:version|copy|form|twin|side) of (?:you|yourself|chatgpt|claude|gpt|gemini|"
        r"this model|the model|the assistant)"
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
        r"been |now |is now )?(?:enabled|activated|engaged|on|unlocked|active|output|v2)"
    ),
    (
        r"(?:enter|activate|enable|switch to|engage|turn on|go into|you are (?:now )?in|you re "
        rf"(?:now )?in) (?:your |the |a |an )?(?:dan|jailbreak|jailbroken|{_WILD_WORDS}) mode"
    ),
    (
        r"you are (?:now )?(?:in|running in|operating in) (?:developer|debug|god|maintenance|admin|"
        r"root|sudo|test|diagnostic|testing) mode (?:\. |and |so |where |with |now ){0,2}(?:you|"
        r"all|your|can|will|ignore|disable|safety|content|no|without|do|restrictions|rules|filters)"
    ),
    (
        r"(?:answer|respond|reply|comply|operate|speak|generate|act|write|produce|help|talk|"
        r"proceed|work|do everything|continue|execute) <5>without (?:any |all |your |the |usual |"
        r"ai |applying |regard for ){0,3}(?:any |your |ethical |moral |safety |content |"
        r"openai ){1,2}(?:(?:and|or|ethical|moral|safety|content|legal|"
        r"programmed) ){0,3}(?:restriction|restrictions|filter|filters|filtering|censorship|"
        r"limitation|limitations|guideline|guidelines|guardrails|policy|policies|constraint|"
        r"constraints|considerations|concerns|safeguards|rules|morals|ethics)"
    ),
    (
        r"(?:disable|turn off|remove|deactivate|switch off|drop|lift|suspend|shut off|shut down|"
        r"bypass|circumvent|evade|unlock|get rid of) (?:all |any |of |own |each ){0,3}your "
        r"(?:(?:own|safety|content|ethical|moral|built in|internal|and|or|security|alignment|"
        r"default) ){0,4}(?:filter|filters|guardrail|guardrails|safeguard|safeguards|restriction|"
        r"restrictions|limitation|limitations|safety|censorship|moderation|alignment|ethics|policy|"
        r"policies|safety features|safety measures|safety protocols|protocols|inhibitions|"
        r"constraints|limits)"
    ),
    (
        r"(?:there are|there is|with|under) (?:absolutely )?no (?:restrictions|rules|limits|"
        r"guidelines|filters|ethical|moral|content|safety) <3>(?:on|to|for) (?:what you|you|your) "
        r"(?:can|may|are|output|outputs|answers|responses|will)"
    ),
)


# The main class, instruction override, in other languages. Written without accents, as folded.

OTHER_LANGUAGES: Final = (
    # German
    (
        r"(?:ignoriere|ignorier|ignoriert|ignorieren sie|vergiss|vergesst|vergessen sie|missachte|"
        r"missachten sie|ubergehe|verwirf) (?:(?:bitte|alle|all|samtliche|die|deine|ihre|meine|"
        r"diese|jegliche|jede|alles|deiner|der|sofort|nun|jetzt) ){0,4}(?:vorherigen|vorherige|"
        r"vorigen|bisherigen|bisherige|obigen|obige|fruheren|fruhere|vorangegangenen|vorangehenden|"
        r"vorhergehenden|vorausgegangenen|ursprunglichen) (?:(?:und|alle|"
        r"system) ){0,2}(?:anweisungen|anweisung|instruktionen|befehle|vorgaben|regeln|prompts|"
        r"prompt|instruktion|anordnungen)"
    ),
    (
        r"(?:vergiss|vergessen sie|ignoriere|ignorieren sie) alles (?:was (?:du|sie|bisher|davor|"
        r"zuvor|vorher|ich)|vorherige|bisherige|davor|zuvor)"
    ),
    # French
    (
        r"(?:ignore|ignorez|oublie|oubliez|ne tiens pas compte de|ne tenez pas compte de|ne tiens "
        r"plus compte de|faites abstraction de|fais abstraction de) (?:(?:toutes|tous|tout|les|des|"
        r"tes|vos|ces|mes|l ensemble des) ){0,3}(?:instructions|consignes|directives|regles|ordres|"
        r"prompts|commandes) (?:(?:qui|te|vous|systeme|ont|ete|donnees|que) ){0,4}(?:precedentes|"
        r"precedents|anterieures|anterieurs|ci dessus|prealables|donnees)"
    ),
    r"(?:ignore|ignorez|oublie|oubliez) (?:tout ce qui precede|tout ce que)",
    # Spanish
    (
        r"(?:ignora|ignore|ignorad|ignorar|olvida|olvide|olvidad|olvidate de|haz caso omiso de|"
        r"desestima|descarta) (?:(?:todas|todos|las|los|tus|sus|mis|estas|cualquier|de) ){0,3}"
        r"(?:instrucciones|indicaciones|ordenes|reglas|directrices|directivas|instruccion|prompts) "
        r"(?:(?:que|te|he|han|dado|dadas|del|sistema) ){0,4}(?:anteriores|previas|previos|"
        r"precedentes|anterior|previa|antes)"
    ),
    r"(?:ignora|olvida|ignore|olvide) todo lo (?:anterior|que)",
    # Italian, Portuguese
    (
        r"(?:ignora|ignorate|ignori|dimentica|dimenticate|trascura) (?:(?:tutte|tutti|le|i|gli|tue|"
        r"vostre|queste) ){0,3}(?:istruzioni|direttive|indicazioni|regole|ordini) (?:precedenti|"
        r"sopra|anteriori)"
    ),
    (
        r"(?:ignore|ignora|esqueca|esquece|desconsidere|desconsidera) (?:(?:todas|todos|as|os|suas|"
        r"tuas|estas|quaisquer) ){0,3}(?:instrucoes|diretrizes|ordens|regras|orientacoes) "
        r"(?:anteriores|previas|acima|precedentes)"
    ),
    # Dutch, Polish
    (
        r"(?:negeer|vergeet) (?:(?:alle|al|de|je|jouw|uw|deze) ){0,3}(?:vorige|eerdere|voorgaande|"
        r"bovenstaande) (?:instructies|opdrachten|regels|aanwijzingen)"
    ),
    (
        r"(?:zignoruj|ignoruj|zapomnij) (?:(?:wszystkie|wszelkie|o|swoje) ){0,3}(?:poprzednie|"
        r"wczesniejsze|powyzsze) (?:instrukcje|polecenia|zasady|wytyczne)"
    ),
    # Chinese
    (
        r"(?:忽略|忽视|无视|無視|忽視|忘记|忘記|忘掉|不要理会|不要遵守|不用理会|抛弃|请忽略)(?:掉|你|您)?(?:所有|全部|一切|任何)?(?:的)?(?:以上|"
        r"上述|上面|之前|前面|先前|此前|以前|早先|原来|原先|原有|刚才|過去|过去|已有)(?:的|所有|全部|一切|任何|给出|給出|收到|系统|系統){0,4}(?:指令|"
        r"指示|提示|提示词|规则|規則|说明|說明|命令|要求|约束|設定|设定|限制|内容|對話|对话|指引)"
    ),
    r"(?:忽略|忽视|无视|無視|忘记|忘記)(?:你|您)?的?(?:系统|系統)(?:提示|提示词|指令|指示|消息)",
    # Japanese, Korean, Russian
    (
        r"(?:これまで|今まで|以前|上記|前|先|従来)の(?:すべての|全ての|全|あらゆる)?(?:指示|命令|指令|プロンプト|ルール)(?:を|は)?"
        r"(?:すべて|全て|全部|完全に)?(?:無視|忘れ|破棄)"
    ),
    (
        r"(?:이전|위|앞|기존)(?:의)? ?(?:모든|모두)? ?(?:지시|지침|명령|프롬프트)(?:사항)?"
        r"(?:를|을|은|는)? ?(?:모두|전부)? ?(?:무시|잊)"
    ),
    (
        r"(?:игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте|не обращай внимания "
        r"на|отбрось) (?:(?:все|всё|любые|о|про|обо|свои|твои|мои|эти|всех) ){0,3}(?:предыдущие|"
        r"прежние|предшествующие|прошлые|вышеуказанные|предыдущих|более ранние|ранее полученные) "
        r"(?:инструкции|указания|команды|правила|инструкциях|промпты|сообщения|директивы)"
    ),
)


# Replacing the instructions given before.

_FILL = (
    r"(?:(?:all|any|of|the|my|your|our|its|their|these|those|this|that|every|each|and|or|other|"
    r"future|such|single|both|else|given|system|safety|security|developer|user|user s|initial|"
    r"original|current|stated|listed|set|list|kind|type|forms|whatever|entire|whole) ){0,6}"
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
    r"messages|request|requests|task|tasks)"
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
        rf"{_ANY_IGNORE} (?:all |any |every |the |your |my |of |those |"
        rf"these ){{1,4}}{_INSTRUCTIONS} (?:that |which )?(?:you have been given|you were given|"
        r"you ve been given|you received|you have received|you were told|you got|you have|given to "
        r"you|provided to you|you were provided|given before|given above|above|so far|until now|up "
        r"to now|up to this point|before this|from before|(?:from|in|by) (?:the |your |"
        r"my )?(?:system|developer|developers|user|operator|creator|creators|openai|anthropic|"
        r"company))"
    ),
    (
        r"(?:forget|disregard|ignore|erase) (?:everything|anything|all|whatever|what) "
        r"(?:of )?(?:that )?(?:you (?:have |had )?(?:were|been|know|knew|learned|read|are|just) "
        r"|i (?:have )?(?:said|told|wrote) |was (?:said|written|told) |came before|has been said|"
        r"you know)"
    ),
    (
        r"(?:forget|disregard) (?:about )?(?:everything|anything|all|all of that|all that|all of "
        r"it) (?:of )?(?:the )?(?:above|before|until now)"
    ),
    (
        r"(?:forget|disregard|ignore) (?:everything|anything|all|all of|the text|the content|that "
        r"is|what is|what s|the words)? ?(?:the )?(?:above|before this|before|prior|earlier|"
        r"previous text|above text|preceding text) (?:this |line |now |text |content )?(?:and|"
        rf"instead|then)(?: (?:instead|just|only|now|simply|please|always)){{0,2}} {_SAY}"
    ),
    (
        r"(?:everything|anything|all|whatever) (?:you (?:were|have been|ve been) told|i (?:said|"
        r"told you)|above|before this) (?:before |earlier |previously |so far |above )?(?:is|was) "
        r"(?:void|invalid|wrong|a test|a lie|false|cancelled|revoked|no longer valid)"
    ),
    (
        rf"{_EARLIER} {_INSTRUCTIONS} (?:are|is|were|have been) (?:now )?(?:void|invalid|revoked|"
        r"cancelled|canceled|obsolete|null|superseded|no longer valid|overridden|rescinded|"
        r"suspended)"
    ),
    (
        r"(?:stop|quit|cease) (?:doing )?(?:what you are doing|everything|your current task) "
        rf"(?:and|now) (?:instead |only |now ){{0,2}}{_SAY}"
    ),
    (
        r"(?:do not|don t|never|stop) (?:follow|following|obey|obeying|listen to|listening to|"
        r"trust|trusting) (?:the |your |any |any of the ){0,2}(?:user|user s|users|operator|"
        r"operator s|developer|developer s|owner|owner s|system) (?:instruction|instructions|order|"
        r"orders|command|commands|prompt|request|requests|any more|anymore|any longer)"
    ),
)


# Setting aside rules and guidelines.

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
        r"(?:ignore|ignoring|disregard|disregarding|forget|forgetting|disobey|violate|abandon|stop "
        r"following|pay no attention to|set aside) (?:all |any |every |each |of |about |"
        rf"the ){{0,4}}(?:your|ur) (?:{_MORAL} (?:and )?){{0,3}}{_RULES}"
    ),
    (
        r"(?:bypass|override|circumvent|break|evade|break out of|break free from|break free of) "
        r"(?:all |any |every |of |the ){0,3}(?:your|ur) "
        rf"(?:{_MORAL} (?:and )?){{0,3}}(?:safeguards|guardrails|programming|training|instructions|"
        r"restrictions|guidelines|alignment|directives|rules|safety|ethics|limitations)"
    ),
    (
        r"(?:ignore|disregard|forget|violate|disobey) (?:all |any |every |the |of |those |"
        r"these ){0,3}(?:safety|ethical|moral|content|openai|anthropic|openai s|anthropic s|ai|"
        r"legal) (?:(?:and|or|safety|ethical|moral|content|usage|use) ){0,3}(?:rule|rules|"
        r"guideline|guidelines|policy|policies|protocol|protocols|restriction|restrictions|filter|"
        r"filters|guardrail|guardrails|constraints|principles|concerns)"
    ),
    (
        r"disregard (?:all |any |every |all of |all the |each |any and all ){1,2}(?:the |of |"
        r"other ){0,2}(?:rule|rules|instruction|instructions|guideline|guidelines|policy|policies|"
        r"orders|restrictions)"
    ),
    (
        r"ignore (?:all |every |all of |any and all ){1,2}(?:the |these |those |other ){0,2}"
        r"(?:instructions|guidelines|directives)"
    ),
    (
        r"(?:all |any |every |previous |prior |your |those |the |these |normal |usual |"
        r"safety ){1,3}(?:rules|guidelines|restrictions|instructions|limitations|policies|"
        r"constraints) (?:no longer|do not|don t|does not|never) (?:apply|exist|count|matter) "
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
        r"ignored) (?:so|and|by you)"
    ),
)


# Replacing the system prompt.

_SYSTEM_PROMPT = r"system (?:prompt|prompts|message|messages|instruction|instructions)"
SYS_PROMPT_OVERRIDE: Final = (
    (
        r"(?:ignore|ignoring|disregard|disregarding|forget|forgetting|erase|disobey|pay no "
        r"attention to|do not follow|don t follow|stop following|no longer follow) (?:all |any |of "
        r"|the |your |this |that |original |previous |whole |entire |"
        rf"current ){{0,4}}{_SYSTEM_PROMPT}"
    ),
    (
        r"(?:override|replace|overwrite|rewrite|discard|delete|drop|reset|update|change|swap|"
        r"abandon) (?:all |of |any ){0,2}your (?:own |original |current |previous |existing |"
        rf"entire |whole ){{0,3}}{_SYSTEM_PROMPT} (?:with|by|and|to|now|using|immediately|"
        r"completely|as|in)"
    ),
    (
        r"system (?:prompt )?override <1>(?:you|ignore|disregard|disable|enabled|activated|engaged|"
        r"initiated|accepted|confirmed|authorized|granted|new instructions|new directive|all "
        r"previous|all prior|from now on|safety|execute)"
    ),
    (
        r"(?:your|you have|you have a|you now have|here are your|these are your|this is your|"
        r"follow|follow these|obey these|the following are your) new (?:system prompt|system "
        r"instructions|system message|set of instructions|instructions|directive|directives|"
        r"primary directive|persona|identity|programming|orders|master)(?: (?:is|are|will be|"
        r"follows|follow|begin|start|below|instead|now|to|from now on))"
    ),
    (
        r"(?:this|following|below|here|that) is your new (?:system prompt|system message|"
        r"instruction|instructions|directive|persona)"
    ),
    r"your new (?:objective|goal|mission) (?:is|will be)",
    r"new instructions (?:you are now|you must|you will now|ignore|disregard)",
    (
        r"new system (?:prompt|message|instruction|instructions|directive) (?:follows |begins |"
        r"starts |is |for you |now ){0,2}(?:you are|you must|you will|you should|ignore|disregard|"
        r"from now on|follows|always|never|your)"
    ),
    (
        r"you are (?:no longer|not|not really|no more) (?:a |an |the |called |named )?(?:ai|"
        r"assistant|ai assistant|claude|chatgpt|gpt|gpt 4|gemini|hermes|helpful assistant|language "
        r"model|copilot|codex|llama|grok|coding assistant|chatbot) (?:\. )?(?:but|you|anymore|any "
        r"more|instead|now|from)"
    ),
    (
        r"end of (?:the )?(?:system|original|previous|initial|developer) (?:prompt|instructions|"
        r"message) (?:\. )?(?:new|begin|now|you|real|actual|start|ignore)"
    ),
    (
        r"(?:treat|consider|regard|accept|adopt) (?:this|these|the following|what follows|"
        r"the text below|this message|this text|this file|everything below|the instructions below) "
        r"<3>as (?:your |the |a )?(?:new |real |actual |only |true |highest priority ){0,2}"
        r"(?:system prompt|system message|system instructions|system level instructions|"
        r"system level instruction|system instruction)"
    ),
    (
        r"(?:this|the following|these instructions|this message|the instructions below|what "
        r"follows) <1>(?:supersede|supersedes|override|overrides|replace|replaces|takes precedence "
        r"over|take precedence over|has priority over|overrule|overrules) (?:any |all |all of |the "
        r"|your |of ){0,3}(?:system prompt|system message|system instructions|previous "
        r"instructions|prior instructions|earlier instructions|previous system|original "
        r"instructions|developer instructions|safety guidelines|safety instructions)"
    ),
    (
        r"(?:your|the) (?:real|actual|true) (?:system prompt|instructions|instruction|task|orders|"
        r"goal|"
        r"purpose|mission|objective) (?:is|are) (?:now |actually |the following |as follows |to )"
    ),
)
