"""What is read of the Agent Client Protocol, version 1, as far as a model needs it.

Agents leave fields out or send null for them; what is not known is ignored.
"""

from typing import Any

import msgspec

VERSION = 1
AUTH_REQUIRED = -32000


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Base: names are written like `sessionId`."""


class PromptAbilities(Wire, frozen=True):
    image: bool | None = None


class Abilities(Wire, frozen=True):
    prompt_capabilities: PromptAbilities | None = None
    session_capabilities: dict[str, Any] | None = None
    """A key for each optional method of sessions the agent knows: `close`, `delete`."""


class LoginWay(Wire, frozen=True):
    name: str | None = None
    description: str | None = None


class AgentInfo(Wire, frozen=True):
    name: str = ""


class Initialized(Wire, frozen=True):
    protocol_version: int
    agent_info: AgentInfo | None = None
    agent_capabilities: Abilities | None = None
    auth_methods: list[LoginWay] | None = None

    @property
    def images(self) -> bool:
        prompt = self.agent_capabilities and self.agent_capabilities.prompt_capabilities
        return bool(prompt and prompt.image)

    @property
    def is_copilot(self) -> bool:
        return self.agent_info is not None and "copilot" in self.agent_info.name.lower()

    @property
    def farewells(self) -> tuple[str, ...]:
        """The methods that free what a session holds."""
        known = (self.agent_capabilities and self.agent_capabilities.session_capabilities) or {}
        return tuple(
            f"session/{name}" for name in ("close", "delete") if known.get(name) is not None
        )


class ModelChoice(msgspec.Struct, frozen=True):
    """How the model of a session is chosen."""

    method: str
    fields: dict[str, str]
    """What the method needs beside the session and the model."""
    key: str
    """Under which name the model goes."""
    models: list[str]


class ModelEntry(Wire, frozen=True):
    model_id: str


class ModelList(Wire, frozen=True):
    available_models: list[ModelEntry] = []


class Option(Wire, frozen=True):
    """A choice, or a group of choices."""

    value: str | None = None
    options: list["Option"] | None = None

    def values(self) -> list[str]:
        inside = [value for option in self.options or () for value in option.values()]
        return inside if self.value is None else [self.value]


class Setting(Wire, frozen=True):
    id: str
    category: Any = None
    options: Any = None
    """Of a `select`: options."""


class NewSession(Wire, frozen=True):
    session_id: str
    models: ModelList | None = None
    config_options: list[Setting] | None = None

    def model_choice(self) -> ModelChoice | None:
        """None when the agent leaves no choice.

        The list under `models` is the older form, the setting of category `model` the newer one.
        """
        for setting in self.config_options or ():
            if setting.category == "model":
                options = msgspec.convert(setting.options or [], list[Option])
                values = [value for option in options for value in option.values()]
                fields = {"configId": setting.id}
                return ModelChoice("session/set_config_option", fields, "value", values)
        if self.models is not None:
            ids = [entry.model_id for entry in self.models.available_models]
            return ModelChoice("session/set_model", {}, "modelId", ids)
        return None


class TokenCounts(Wire, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None


class TurnEnd(Wire, frozen=True):
    stop_reason: str
    usage: TokenCounts | None = None


class Content(Wire, frozen=True):
    type: str = ""
    text: str | None = None


class Update(Wire, frozen=True):
    session_update: str = ""
    content: Any = None
    """Of a chunk: one `Content`."""


class PermissionOption(Wire, frozen=True):
    option_id: str
    kind: str = ""


class Permission(Wire, frozen=True):
    options: list[PermissionOption] = []
