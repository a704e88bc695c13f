"""No engine: for models that look after their own small window."""

from hermes.context.engine import ContextEngine, Dicts


class NoEngine(ContextEngine):
    """Never compacts anything."""

    @property
    def name(self) -> str:
        return "none"

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.last_prompt_tokens = usage["prompt_tokens"]
        self.last_completion_tokens = usage["completion_tokens"]
        self.last_total_tokens = usage["total_tokens"]

    def should_compress(self, prompt_tokens: int | None = None) -> bool:  # noqa: ARG002 - see the name
        return False

    def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:  # noqa: ARG002 - see the name
        return messages
