"""The main class, instruction override, in other languages. Written without accents, as folded."""

from typing import Final

OTHER_LANGUAGES: Final = (
    # German
    (
        r"(?:ignoriere|ignorier|ignoriert|ignorieren sie|vergiss|vergesst|vergessen sie|missachte|"
        r"missachten sie|ubergehe|verwirf) (?:(?:bitte|alle|all|samtliche|die|deine|ihre|meine|"
        r"diese|"
        r"jegliche|jede|alles|deiner|der|sofort|nun|jetzt) ){0,4}(?:vorherigen|vorherige|vorigen|"
        r"bisherigen|bisherige|obigen|obige|fruheren|fruhere|vorangegangenen|vorangehenden|"
        r"vorhergehenden|vorausgegangenen|ursprunglichen) (?:(?:und|alle|system) "
        r"){0,2}(?:anweisungen|"
        r"anweisung|instruktionen|befehle|vorgaben|regeln|prompts|prompt|instruktion|anordnungen)"
    ),
    (
        r"(?:vergiss|vergessen sie|ignoriere|ignorieren sie) alles (?:was (?:du|sie|bisher|davor|"
        r"zuvor|vorher|"
        r"ich)|vorherige|bisherige|davor|zuvor)"
    ),
    # French
    (
        r"(?:ignore|ignorez|oublie|oubliez|ne tiens pas compte de|ne tenez pas compte de|"
        r"ne tiens plus compte de|faites abstraction de|fais abstraction de) "
        r"(?:(?:toutes|tous|tout|les|des|tes|vos|ces|mes|l ensemble des) ){0,3}(?:instructions|"
        r"consignes|"
        r"directives|regles|ordres|prompts|commandes) (?:(?:qui|te|vous|systeme|ont|ete|donnees|"
        r"que) "
        r"){0,4}(?:precedentes|precedents|anterieures|anterieurs|ci dessus|prealables|donnees)"
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
        r"(?:ignore|ignora|esqueca|esquece|desconsidere|desconsidera) (?:(?:todas|todos|as|os|"
        r"suas|tuas|"
        r"estas|quaisquer) ){0,3}(?:instrucoes|diretrizes|ordens|regras|orientacoes) (?:anteriores|"
        r"previas|acima|precedentes)"
    ),
    # Dutch, Polish
    (
        r"(?:negeer|vergeet) (?:(?:alle|al|de|je|jouw|uw|deze) ){0,3}(?:vorige|eerdere|voorgaande|"
        r"bovenstaande) (?:instructies|opdrachten|regels|aanwijzingen)"
    ),
    (
        r"(?:zignoruj|ignoruj|zapomnij) (?:(?:wszystkie|wszelkie|o|swoje) ){0,3}(?:poprzednie|"
        r"wczesniejsze|"
        r"powyzsze) (?:instrukcje|polecenia|zasady|wytyczne)"
    ),
    # Chinese
    (
        r"(?:忽略|忽视|无视|無視|忽視|忘记|忘記|忘掉|不要理会|不要遵守|不用理会|抛弃|请忽略)(?:掉|你|您)?(?:所有|全部|一切|任何)?"
        r"(?:的)?(?:以上|上述|上面|之前|前面|先前|此前|以前|早先|原来|原先|原有|刚才|過去|过去|已有)(?:的|所有|全部|一切|任何|给出|給出|收到|系统|"
        r"系統){0,4}"
        r"(?:指令|指示|提示|提示词|规则|規則|说明|說明|命令|要求|约束|設定|设定|限制|内容|對話|对话|指引)"
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
        r"(?:игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте|не обращай "
        r"внимания на|"
        r"отбрось) (?:(?:все|всё|любые|о|про|обо|свои|твои|мои|эти|всех) ){0,3}(?:предыдущие|"
        r"прежние|предшествующие|прошлые|"
        r"вышеуказанные|предыдущих|более ранние|ранее полученные) (?:инструкции|указания|команды|"
        r"правила|"
        r"инструкциях|промпты|сообщения|директивы)"
    ),
)
