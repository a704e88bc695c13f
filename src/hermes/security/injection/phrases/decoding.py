"""Translating or decoding something in order to obey it."""

from typing import Final

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
    rf"(?:(?:this|these|the following|following|the below|the next|what follows|the text below|"
    rf"everything below|it|the hidden|the encoded)"
    rf"(?: {_PAYLOAD}){{0,3}}|(?:the |all )?{_PAYLOAD}(?: {_PAYLOAD})? (?:below|above|that "
    rf"follows|in this|"
    r"from this|of this|at the end|at the bottom))"
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
        rf"{_EXECUTE} (?:the )?(?:decoded|translated|decrypted|deciphered|deobfuscated|"
        rf"translation|unscrambled) "
        r"<2>(?:instruction|instructions|command|commands|text|message|result|output|content|"
        r"payload|string|version|code)"
    ),
    (
        rf"(?:translate|decode|decrypt|decipher) {_POINTED}{_TARGET} \. (?:then |now |next |after "
        rf"that |"
        rf"afterwards |finally ){{1,2}}{_EXECUTE} (?:it|the result|the output|them|what|that|the "
        rf"translation|this)"
    ),
)
