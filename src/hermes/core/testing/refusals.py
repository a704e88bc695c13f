"""Every way an endpoint says no, shaped as the real ones shape it."""

from typing import Any, Literal

import msgspec


class Refusal(msgspec.Struct, frozen=True):
    """`type`, `code` and `message` as OpenAI says it; the rest as Anthropic says it."""

    status: int
    type: str
    code: str | None
    message: str
    anthropic_type: str
    anthropic_message: str
    param: str | None = None
    raw: bytes | None = None
    """Sent as it is, as HTML, in place of a JSON body."""

    def openai_error(self) -> dict[str, Any]:
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}

    def anthropic_error(self) -> dict[str, Any]:
        return {"type": self.anthropic_type, "message": self.anthropic_message}


_INVALID = "invalid_request_error"
_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    b"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body></html>\r\n"
)

# fmt: off
RefusalKind = Literal[
    "bad_request", "unauthorized", "payment_required", "forbidden", "model_not_found",
    "too_large", "rate_limited", "quota", "server_error", "unavailable", "overloaded",
    "context_length", "content_filter", "bad_signature", "bad_unicode", "html", "empty",
]
REFUSALS: dict[RefusalKind, Refusal] = {
    "bad_request": Refusal(
        400, _INVALID, None, "Unrecognized request argument supplied: frobnicate",
        _INVALID, "frobnicate: Extra inputs are not permitted"),
    "unauthorized": Refusal(
        401, _INVALID, "invalid_api_key", "Incorrect API key provided: sk-te**************test.",
        "authentication_error", "invalid x-api-key"),
    "payment_required": Refusal(
        402, "insufficient_quota", "402", "Insufficient credits. Add more credits to continue.",
        "billing_error", "There is a problem with your billing or payment information."),
    "forbidden": Refusal(
        403, _INVALID, "model_not_available", "Project does not have access to this model.",
        "permission_error", "Your API key does not have permission to use this resource."),
    "model_not_found": Refusal(
        404, _INVALID, "model_not_found",
        "The model `no-such-model` does not exist or you do not have access to it.",
        "not_found_error", "model: no-such-model"),
    "too_large": Refusal(
        413, _INVALID, None, "Request body too large.",
        "request_too_large", "Request exceeds the maximum size"),
    "rate_limited": Refusal(
        429, "requests", "rate_limit_exceeded",
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1.",
        "rate_limit_error", "This request would exceed your organization's rate limit."),
    "quota": Refusal(
        429, "insufficient_quota", "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        _INVALID, "Your credit balance is too low to access the Anthropic API."),
    "server_error": Refusal(
        500, "server_error", None, "The server had an error while processing your request.",
        "api_error", "Internal server error"),
    "unavailable": Refusal(
        503, "service_unavailable_error", None, "The engine is currently overloaded.",
        "api_error", "Service unavailable"),
    "overloaded": Refusal(
        529, "overloaded_error", "overloaded", "The model is overloaded. Please try again later.",
        "overloaded_error", "Overloaded"),
    "context_length": Refusal(
        400, _INVALID, "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "131072 tokens. Please reduce the length of the messages.",
        _INVALID, "prompt is too long: 212345 tokens > 200000 maximum", param="messages"),
    "content_filter": Refusal(
        400, _INVALID, "content_filter",
        "The response was filtered due to the prompt triggering the content management policy.",
        _INVALID, "Output blocked by content filtering policy", param="prompt"),
    "bad_signature": Refusal(
        400, _INVALID, "invalid_encrypted_content",
        "The encrypted content for item rs_1 could not be verified.",
        _INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block"),
    "bad_unicode": Refusal(
        400, _INVALID, None,
        "We could not parse the JSON body of your request: invalid unicode code point.",
        _INVALID, "The request body is not valid JSON: no low surrogate in string"),
    "html": Refusal(502, "", None, "502 Bad Gateway", "", "502 Bad Gateway", raw=_PAGE),
    "empty": Refusal(200, "", None, "", "", "", raw=b""),
}
# fmt: on
