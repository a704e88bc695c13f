"""Speaking, listening and the microphone."""

from hermes.config.settings.base import Positive, Seconds, Section


class EdgeVoice(Section, frozen=True):
    voice: str = "en-US-AriaNeural"
    """Voice of Microsoft Edge."""
    speed: float | None = None
    """Speed; unset is tts.speed."""


class ElevenLabsVoice(Section, frozen=True):
    voice_id: str = ""
    """Voice; empty is the service's default."""
    model_id: str = "eleven_multilingual_v2"
    """Model."""


class OpenAIVoice(Section, frozen=True):
    model: str = "gpt-4o-mini-tts"
    """Model."""
    voice: str = "alloy"
    """Voice."""
    speed: float | None = None
    """Speed; unset is tts.speed."""
    base_url: str = ""
    """Endpoint, when not OpenAI's own."""


class MiniMaxVoice(Section, frozen=True):
    model: str = ""
    """Model; empty is the service's default."""
    voice_id: str = ""
    """Voice; empty is the service's default."""
    speed: float | None = None
    """Speed; unset is tts.speed."""
    vol: float | None = None
    """Loudness."""
    pitch: float | None = None
    """Pitch."""


class MistralVoice(Section, frozen=True):
    model: str = "voxtral-mini-tts-2603"
    """Model."""
    voice_id: str = ""
    """Voice; empty is the service's default."""


class GeminiVoice(Section, frozen=True):
    model: str = ""
    """Model; empty is the service's default."""
    voice: str = "Kore"
    """Voice."""


class XaiVoice(Section, frozen=True):
    voice_id: str = "eve"
    """Voice."""
    language: str = ""
    """Language; empty is found out."""
    sample_rate: Positive = 24000
    """Samples a second."""
    bit_rate: Positive = 128000
    """Bits a second."""


class NeuVoice(Section, frozen=True):
    ref_audio: str = ""
    """Recording of the voice to speak with."""
    ref_text: str = ""
    """What is said in that recording."""
    model: str = ""
    """Model; empty is the program's default."""
    device: str = ""
    """Where it runs, for example cpu or cuda."""


class KittenVoice(Section, frozen=True):
    model: str = ""
    """Model; empty is the program's default."""
    voice: str = ""
    """Voice; empty is the program's default."""
    speed: float | None = None
    """Speed; unset is tts.speed."""
    clean_text: bool = True
    """Write numbers and signs out as words first."""


class TtsSettings(Section, frozen=True):
    provider: str = "edge"
    """Who speaks: edge, elevenlabs, openai, minimax, mistral, gemini, xai, neutts, kittentts."""
    speed: float = 1.0
    """Speed of speech."""
    use_gateway: bool = False
    """Use the Tool Gateway instead of a key of your own."""
    edge: EdgeVoice = EdgeVoice()
    elevenlabs: ElevenLabsVoice = ElevenLabsVoice()
    openai: OpenAIVoice = OpenAIVoice()
    minimax: MiniMaxVoice = MiniMaxVoice()
    mistral: MistralVoice = MistralVoice()
    gemini: GeminiVoice = GeminiVoice()
    xai: XaiVoice = XaiVoice()
    neutts: NeuVoice = NeuVoice()
    kittentts: KittenVoice = KittenVoice()


class LocalListener(Section, frozen=True):
    model: str = "base"
    """Size of the Whisper model."""
    language: str = "en"
    """Language of the command below."""
    command: str = ""
    """Program that writes down a recording, instead of Whisper."""


class GroqListener(Section, frozen=True):
    model: str = ""
    """Model; empty is the service's default."""


class OpenAIListener(Section, frozen=True):
    model: str = "whisper-1"
    """Model."""
    base_url: str = ""
    """Endpoint, when not OpenAI's own."""


class MistralListener(Section, frozen=True):
    model: str = "voxtral-mini-latest"
    """Model."""


class SttSettings(Section, frozen=True):
    provider: str = "local"
    """Who listens: local, groq, openai, mistral; local falls back to groq, then openai."""
    enabled: bool = True
    """Write down voice messages."""
    local: LocalListener = LocalListener()
    groq: GroqListener = GroqListener()
    openai: OpenAIListener = OpenAIListener()
    mistral: MistralListener = MistralListener()


class VoiceSettings(Section, frozen=True):
    record_key: str = "ctrl+b"
    """Key that starts and stops recording."""
    max_recording_seconds: Seconds = 120
    """Longest recording."""
    auto_tts: bool = False
    """Speak answers to spoken messages."""
    beep_enabled: bool = True
    """Beep when recording starts and stops."""
    silence_threshold: float = 200
    """Loudness below which it counts as silence."""
    silence_duration: Seconds = 3.0
    """Seconds of silence that end a recording."""
