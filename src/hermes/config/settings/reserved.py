"""Documented settings that no code reads yet: speech, browser, images, dashboard, platforms.

They are data, so that a config.yaml that has them is checked and explained like any other. A
setting moves to a class of its own when its feature arrives.
"""

from typing import Any, Literal

import msgspec

from hermes.config.settings.base import Port, Positive, Seconds, Section

# Each line: section, key, type, default as JSON, meaning. A type with a capital is another section.
_TABLE = """
EdgeVoice voice str "en-US-AriaNeural" Voice of Microsoft Edge.
EdgeVoice speed float? null Speed; unset is tts.speed.
ElevenLabsVoice voice_id str "" Voice; empty is the service's default.
ElevenLabsVoice model_id str "eleven_multilingual_v2" Model.
OpenAIVoice model str "gpt-4o-mini-tts" Model.
OpenAIVoice voice str "alloy" Voice.
OpenAIVoice speed float? null Speed; unset is tts.speed.
OpenAIVoice base_url str "" Endpoint, when not OpenAI's own.
MiniMaxVoice model str "" Model; empty is the service's default.
MiniMaxVoice voice_id str "" Voice; empty is the service's default.
MiniMaxVoice speed float? null Speed; unset is tts.speed.
MiniMaxVoice vol float? null Loudness.
MiniMaxVoice pitch float? null Pitch.
MistralVoice model str "voxtral-mini-tts-2603" Model.
MistralVoice voice_id str "" Voice; empty is the service's default.
GeminiVoice model str "" Model; empty is the service's default.
GeminiVoice voice str "Kore" Voice.
XaiVoice voice_id str "eve" Voice.
XaiVoice language str "" Language; empty is found out.
XaiVoice sample_rate positive 24000 Samples a second.
XaiVoice bit_rate positive 128000 Bits a second.
NeuVoice ref_audio str "" Recording of the voice to speak with.
NeuVoice ref_text str "" What is said in that recording.
NeuVoice model str "" Model; empty is the program's default.
NeuVoice device str "" Where it runs, for example cpu or cuda.
KittenVoice model str "" Model; empty is the program's default.
KittenVoice voice str "" Voice; empty is the program's default.
KittenVoice speed float? null Speed; unset is tts.speed.
KittenVoice clean_text bool true Write numbers and signs out as words first.
TtsSettings provider str "edge" Who speaks: edge, elevenlabs, openai, minimax, mistral, gemini, \
xai, neutts, kittentts.
TtsSettings speed float 1.0 Speed of speech.
TtsSettings use_gateway bool false Use the Tool Gateway instead of a key of your own.
TtsSettings edge EdgeVoice
TtsSettings elevenlabs ElevenLabsVoice
TtsSettings openai OpenAIVoice
TtsSettings minimax MiniMaxVoice
TtsSettings mistral MistralVoice
TtsSettings gemini GeminiVoice
TtsSettings xai XaiVoice
TtsSettings neutts NeuVoice
TtsSettings kittentts KittenVoice
LocalListener model str "base" Size of the Whisper model.
LocalListener language str "en" Language of the command below.
LocalListener command str "" Program that writes down a recording, instead of Whisper.
GroqListener model str "" Model; empty is the service's default.
OpenAIListener model str "whisper-1" Model.
OpenAIListener base_url str "" Endpoint, when not OpenAI's own.
MistralListener model str "voxtral-mini-latest" Model.
SttSettings provider str "local" Who listens: local, groq, openai, mistral; local falls back to \
groq, then openai.
SttSettings enabled bool true Write down voice messages.
SttSettings local LocalListener
SttSettings groq GroqListener
SttSettings openai OpenAIListener
SttSettings mistral MistralListener
VoiceSettings record_key str "ctrl+b" Key that starts and stops recording.
VoiceSettings max_recording_seconds seconds 120 Longest recording.
VoiceSettings auto_tts bool false Speak answers to spoken messages.
VoiceSettings beep_enabled bool true Beep when recording starts and stops.
VoiceSettings silence_threshold float 200 Loudness below which it counts as silence.
VoiceSettings silence_duration seconds 3.0 Seconds of silence that end a recording.
CamofoxSettings managed_persistence bool false Keep the browser's profile between sessions.
CamofoxSettings url str "" Address of the Camofox server.
BrowserSettings inactivity_timeout seconds 120 Idle seconds before the browser is closed.
BrowserSettings command_timeout seconds 30 Longest time for one action.
BrowserSettings record_sessions bool false Record a video of each session.
BrowserSettings cdp_url str "" Address of a running browser to drive.
BrowserSettings dialog_policy dialog "must_respond" What happens to dialogs a page opens.
BrowserSettings dialog_timeout_s seconds 300 Seconds a dialog waits for the agent.
BrowserSettings camofox CamofoxSettings
BrowserSettings cloud_provider str "" Browser service; empty is a browser on this machine.
BrowserSettings use_gateway bool? null Use the Tool Gateway instead of a key of your own.
ImageGenSettings model str "fal-ai/flux-2/klein/9b" Model that draws.
ImageGenSettings use_gateway bool false Use the Tool Gateway instead of a key of your own.
DashboardSettings theme str "default" Look of the web dashboard.
FeishuRule policy str "" Who is answered in this group.
FeishuRule allowlist texts [] Who may talk to the agent.
FeishuRule blacklist texts [] Who may not.
FeishuExtra ws_reconnect_interval seconds 120 Seconds between attempts to connect again.
FeishuExtra ws_ping_interval seconds 30 Seconds between signs of life.
FeishuExtra default_group_policy str "" Who is answered in groups without a rule.
FeishuExtra admins texts [] Who may always talk to the agent.
FeishuExtra group_rules FeishuRule* {} Rules for single groups, by id.
HomeAssistantExtra watch_domains texts [] Kinds of entities whose changes are reported.
HomeAssistantExtra watch_entities texts [] Entities whose changes are reported.
HomeAssistantExtra watch_all bool false Report every change.
HomeAssistantExtra ignore_entities texts [] Entities that are never reported.
HomeAssistantExtra cooldown_seconds seconds 30 Seconds between two reports of one entity.
WeixinExtra dm_policy str "open" Who is answered in direct chats.
WeixinExtra group_policy str "disabled" Who is answered in groups.
WeixinExtra allow_from texts [] Who may talk to the agent.
WeixinExtra group_allow_from texts [] Groups it answers in.
WeixinExtra groups map {} Rules for single groups, by id.
WeixinExtra split_multiline_messages bool false Send each line as a message of its own.
WecomCallbackExtra host str "0.0.0.0" Address it listens on.
WecomCallbackExtra port port 8645 Port it listens on.
WecomCallbackExtra apps values [] The applications it serves.
DingtalkExtra card_template_id str "" Card that answers are shown in.
"""

_TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "bool?": bool | None,
    "float": float,
    "float?": float | None,
    "positive": Positive,
    "seconds": Seconds,
    "port": Port,
    "dialog": Literal["must_respond", "auto_dismiss", "auto_accept"],
    "texts": tuple[str, ...],
    "values": tuple[Any, ...],
    "map": dict[str, Any],
}

MEANINGS: dict[str, dict[str, str]] = {}  #: The meaning of each key, by section.


def _define_sections() -> dict[str, type[Section]]:
    fields: dict[str, list[Any]] = {}
    for line in _TABLE.strip().splitlines():
        section, key, kind, *rest = line.split(" ", 4)
        default, text = rest if rest else ("", "")
        fields.setdefault(section, []).append((key, kind, default))
        MEANINGS.setdefault(section, {})[key] = text
    made: dict[str, Any] = {}
    for name, rows in fields.items():  # a section stands below those it contains
        typed = [(key, *_type_and_default(made, kind, default)) for key, kind, default in rows]
        made[name] = msgspec.defstruct(name, typed, bases=(Section,), frozen=True, kw_only=True)
    return made


def _type_and_default(made: dict[str, Any], kind: str, default: str) -> tuple[Any, Any]:
    if kind in made:
        return made[kind], made[kind]()
    inner = made.get(kind.removesuffix("*"))
    typed = _TYPES[kind] if inner is None else dict.__class_getitem__((str, inner))
    if default == "{}":
        return typed, msgspec.field(default_factory=dict)
    value = msgspec.json.decode(default)
    return typed, tuple(value) if isinstance(value, list) else value


_SECTIONS = _define_sections()


def __getattr__(name: str) -> Any:
    if name not in _SECTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _SECTIONS[name]
