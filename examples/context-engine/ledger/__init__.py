"""A context engine that keeps a ledger of what it took out."""

import json

from agent.context_engine import ContextEngine
from agent.model_metadata import estimate_messages_tokens_rough

MARK = "[Ledger of earlier requests; ledger_open(number) shows one with its answers]"
OPEN = {
    "name": "ledger_open",
    "description": "Show an entry of the ledger: what was asked and everything that followed.",
    "parameters": {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    },
}


class Ledger(ContextEngine):
    def __init__(self, context_length=128_000):
        self.context_length = context_length
        self.threshold_tokens = context_length // 2
        self.entries = []

    @property
    def name(self):
        return "ledger"

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.last_completion_tokens = usage.get("completion_tokens", 0)
        self.last_total_tokens = usage.get("total_tokens", 0)

    def should_compress(self, prompt_tokens=None):
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens

    def should_compress_preflight(self, messages):
        return estimate_messages_tokens_rough(messages) >= self.threshold_tokens

    def compress(self, messages, current_tokens=None):
        system, talk = messages[0], messages[1:]
        starts = [at for at, each in enumerate(talk) if each["role"] == "user"]
        if len(starts) < 2:
            return messages
        last = starts[-1]
        for start, end in zip(starts, starts[1:], strict=False):
            entry = talk[start:end]
            known = entry in self.entries  # what saved too little is compacted again
            if not known and not str(entry[0]["content"]).startswith(MARK):
                self.entries.append(entry)
        self.compression_count += 1
        listed = [f"{n}. {self._asked(entry)}" for n, entry in enumerate(self.entries, 1)]
        ledger = {"role": "user", "content": "\n".join([MARK, *listed])}
        noted = {"role": "assistant", "content": "Noted."}
        return [system, ledger, noted, *talk[last:]]

    def on_session_reset(self):
        super().on_session_reset()
        self.entries = []

    def get_tool_schemas(self):
        return [OPEN]

    def handle_tool_call(self, name, args, **kwargs):
        number = args["number"]
        if not 1 <= number <= len(self.entries):
            return json.dumps({"error": f"there are entries 1 to {len(self.entries)}"})
        said = [
            {"role": each["role"], "content": each.get("content")}
            for each in self.entries[number - 1]
        ]
        return json.dumps({"entry": said})

    @staticmethod
    def _asked(entry):
        return " ".join(str(entry[0]["content"]).split())[:80]
