# The model cannot be had here: a module with the interface of faster-whisper answers instead.
mkdir -p modules
cat > modules/faster_whisper.py <<'PY'
import types


class WhisperModel:
    def __init__(self, model_size_or_path, *, device, compute_type):
        assert (model_size_or_path, device, compute_type) == ("small", "auto", "default")

    def transcribe(
        self, audio, *, language, task, vad_filter, initial_prompt, condition_on_previous_text
    ):
        assert audio == "talk.wav" and vad_filter and task == "transcribe"
        assert (language, initial_prompt) == ("en", "Hermes")
        rows = [(0.0, 2.5, " Hello there.", -0.2), (3661.04, 3662.0, " Tea is redy", -1.4)]
        names = ("start", "end", "text", "avg_logprob")
        info = {"duration": 3663.0, "language": "en", "language_probability": 0.98}
        segments = (types.SimpleNamespace(**dict(zip(names, row))) for row in rows)
        return segments, types.SimpleNamespace(**info)
PY
export PYTHONPATH="$PWD/modules"
touch talk.wav
