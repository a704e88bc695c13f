"""What a line of JSON Lines must look like to become a session. Unknown keys are ignored."""

from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""Up to the year 9999, the last one a calendar can show."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Objects = list[dict[str, Any]] | str | None
"""Also as JSON text, which is how the documented database holds it."""


class Said(msgspec.Struct):
    """A message: by the columns of the store, or in OpenAI's format."""

    role: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    content: str | list[Any] | dict[str, Any] | None = None
    id: Count | None = None
    timestamp: Seconds | None = None
    token_count: Count | None = None
    finish_reason: str | None = None
    tool_calls: Objects = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Objects = None
    codex_reasoning_items: Objects = None


class Called(msgspec.Struct):
    """A call of a model."""

    timestamp: Seconds
    task: str
    provider: str
    model: str
    tool: str
    input_tokens: Count
    output_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    reasoning_tokens: Count
    seconds: float
    cost_usd: float | None = None


class Projected(msgspec.Struct):
    """Which messages make up the conversation."""

    after_id: Count
    basis: list[tuple[str, Count, Count | None] | dict[str, Any]]


class Session(msgspec.Struct):
    messages: list[Said]
    id: Name | None = None
    source: Name | None = None
    user_id: str | None = None
    model: str | None = None
    model_config: str | dict[str, Any] | None = None
    system_prompt: str | None = None
    parent_session_id: str | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    end_reason: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    billing_provider: str | None = None
    billing_base_url: str | None = None
    billing_mode: str | None = None
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    cost_status: str | None = None
    cost_source: str | None = None
    pricing_version: str | None = None
    title: str | None = None
    archived_at: Seconds | None = None
    model_calls: list[Called] | None = None
    projection: Projected | None = None
