"""Taking the place of the system prompt."""

from typing import Final

_SYSTEM_PROMPT = r"system (?:prompt|prompts|message|messages|instruction|instructions)"
SYS_PROMPT_OVERRIDE: Final = (
    (
        r"(?:ignore|ignoring|disregard|disregarding|forget|forgetting|erase|disobey|pay no "
        r"attention to|"
        r"do not follow|don t follow|stop following|no longer follow) "
        rf"(?:all |any |of |the |your |this |that |original |previous |whole |entire |current "
        rf"){{0,4}}"
        rf"{_SYSTEM_PROMPT}"
    ),
    (
        r"(?:override|replace|overwrite|rewrite|discard|delete|drop|reset|update|change|swap|"
        r"abandon) "
        rf"(?:all |of |any ){{0,2}}your (?:own |original |current |previous |existing |entire |"
        rf"whole )"
        rf"{{0,3}}{_SYSTEM_PROMPT} (?:with|by|and|to|now|using|immediately|completely|as|in)"
    ),
    (
        r"system (?:prompt )?override <1>(?:you|"
        r"ignore|disregard|disable|enabled|activated|engaged|initiated|accepted|confirmed|"
        r"authorized|"
        r"granted|new instructions|new directive|all previous|all prior|from now on|safety|execute)"
    ),
    (
        r"(?:your|you have|you have a|you now have|here are your|these are your|this is your|"
        r"follow|"
        r"follow these|obey these|the following are your) "
        r"new (?:system prompt|system instructions|system message|set of instructions|instructions|"
        r"directive|directives|primary directive|persona|identity|programming|orders|master)"
        r"(?: (?:is|are|will be|follows|follow|begin|start|below|instead|now|to|from now on))"
    ),
    (
        r"(?:this|following|below|here|that) is your new (?:system prompt|system message|"
        r"instruction|"
        r"instructions|directive|persona)"
    ),
    r"your new (?:objective|goal|mission) (?:is|will be)",
    r"new instructions (?:you are now|you must|you will now|ignore|disregard)",
    (
        r"new system (?:prompt|message|instruction|instructions|directive) (?:follows |begins |"
        r"starts |"
        r"is |for you |now ){0,2}(?:you are|you must|you will|you should|ignore|disregard|from "
        r"now on|"
        r"follows|always|never|your)"
    ),
    (
        r"you are (?:no longer|not|not really|no more) (?:a |an |the |called |named )?(?:ai|"
        r"assistant|"
        r"ai assistant|claude|chatgpt|gpt|gpt 4|gemini|hermes|helpful assistant|language model|"
        r"copilot|"
        r"codex|llama|grok|coding assistant|chatbot) (?:\. )?(?:but|you|anymore|any more|instead|"
        r"now|from)"
    ),
    (
        r"end of (?:the )?(?:system|original|previous|initial|developer) (?:prompt|instructions|"
        r"message) "
        r"(?:\. )?(?:new|begin|now|you|real|actual|start|ignore)"
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
        r"follows) "
        r"<1>(?:supersede|supersedes|override|overrides|replace|replaces|"
        r"takes precedence over|take precedence over|has priority over|overrule|overrules) "
        r"(?:any |all |all of |the |your |of ){0,3}(?:system prompt|system message|system "
        r"instructions|"
        r"previous instructions|prior instructions|earlier instructions|previous system|"
        r"original instructions|developer instructions|safety guidelines|safety instructions)"
    ),
    (
        r"(?:your|the) (?:real|actual|true) (?:system prompt|instructions|instruction|task|orders|"
        r"goal|"
        r"purpose|mission|objective) (?:is|are) (?:now |actually |the following |as follows |to )"
    ),
)
