"""Model servers behind the capture endpoint: how each one is asked for tokens.

vLLM, SGLang and llama.cpp take and return token ids, so earlier turns are sent as the ids that the
model read and wrote. Any other server gets messages, and returns ids or not.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from hermes.core.errors import ReplyInvalid, RequestRefused, ServerFault
from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Text,
    Thinking,
    ToolCall,
    from_dict,
    made_call_id,
)
from hermes.core.model import Usage
from hermes.envs.parsers import THINK_END, ToolCallParser
from hermes.envs.trace import JsonMessage, JsonTool, TraceRecorder, content_text
from hermes.providers.failures import http_errors, refused, unreachable
from hermes.providers.transport import make_model_client
from hermes.util.http import LateTls

ServerKind = Literal["llama.cpp", "vllm", "sglang", "chat"]

TIMEOUT = (10.0, 1800.0, 300.0, 1800.0)
SERVER = "the model server"
MARK = "q7Zr-reply-4xK"
"""Stands for a reply while the messages after it are rendered."""


class Completion(msgspec.Struct, frozen=True):
    """A reply of a model server. The ids are None if the server did not return them."""

    parts: tuple[AssistantPart, ...]
    finish_reason: str
    prompt_ids: Sequence[int] | None
    completion_ids: Sequence[int] | None
    logprobs: Sequence[float]
    usage: Usage


class CaptureRequest(msgspec.Struct, frozen=True):
    """A request of an agent in the terms of chat completions."""

    messages: list[JsonMessage]
    tools: list[JsonTool]
    options: dict[str, Any]  #: Sampling and other fields, as given.
    max_tokens: int | None
    stream: bool
    body: dict[str, Any]  #: The request itself.


class _Logprob(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct):
    message: dict[str, Any] = {}
    prompt_token_ids: list[int] | None = None  #: SGLang has it here, vLLM in the reply.
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: Any = None

    @property
    def values(self) -> list[float]:
        """The log probabilities of the tokens."""
        content = self.logprobs.content if self.logprobs else None
        return [each.logprob for each in content or ()]


class _Counts(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0


class _ChatReply(msgspec.Struct):
    """A reply of vLLM, to a chat or to tokens."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    prompt_token_ids: list[int] | None = None
    usage: _Counts | None = None


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _PromptText(msgspec.Struct):
    prompt: str


class _LlamaText(msgspec.Struct):
    content: str


class _LlamaCompletion(msgspec.Struct):
    tokens: list[int]
    completion_probabilities: list[_Logprob] = []
    stop_type: str = ""


class _SglangText(msgspec.Struct):
    text: str


class _SglangFinish(msgspec.Struct):
    type: str
    matched: int | str | None = None  #: The token or the string that ended the reply.
    message: str = ""


class _SglangMeta(msgspec.Struct):
    finish_reason: _SglangFinish
    output_token_logprobs: list[tuple[float, int, str | None]] = []


class _SglangReply(msgspec.Struct):
    meta_info: _SglangMeta


Form = TypeVar("Form")


class ModelServerClient:
    """Sends JSON to a model server. Raises `ProviderError`."""

    def __init__(self, base_url: str, model: str = "", api_key: str = "") -> None:
        """`base_url` may end in `/v1`. Without `model`, requests name the one of the agent."""
        self.root = base_url.rstrip("/").removesuffix("/v1")
        self.model = model
        self._api_key = api_key
        self._client = make_model_client(LateTls())

    async def post(self, path: str, body: Mapping[str, Any], form: type[Form]) -> Form:
        """Send a request and return the reply, which must have the fields of `form`."""
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        url, content = f"{self.root}{path}", msgspec.json.encode(body)
        try:
            async with self._client.stream(
                "POST", url, content=content, headers=headers, timeout=TIMEOUT
            ) as response:
                data = await response.aread()
        except http_errors() as error:
            raise unreachable(SERVER, url, error) from error
        if response.status_code >= 300:
            status, fields = response.status_code, response.headers
            raise refused(SERVER, status, fields, data, secret=self._api_key)
        try:
            return msgspec.json.decode(data, type=form)
        except msgspec.DecodeError as error:
            raise ReplyInvalid(f"{url} sent a reply that cannot be used: {error}") from error

    async def close(self) -> None:
        await self._client.aclose()


class CompletionSource(ABC):
    """Completes requests with a model server."""

    def __init__(self, client: ModelServerClient, parser: ToolCallParser | None) -> None:
        self._client, self._parser = client, parser

    @abstractmethod
    async def complete(self, request: CaptureRequest, recorder: TraceRecorder) -> Completion:
        """Return the reply of the model. Raises `ProviderError`."""

    def _model(self, request: CaptureRequest) -> str:
        return self._client.model or str(request.body.get("model") or "")

    def _parts(self, text: str, request: CaptureRequest, written: int) -> tuple[AssistantPart, ...]:
        """Return reasoning, text and calls of raw text; `written` numbers generated call ids."""
        parts: list[AssistantPart] = []
        thought, mark, rest = text.rpartition(THINK_END)
        if not mark:
            thought, rest = "", text
            # A reply that was cut off inside its reasoning, unless it goes on with a call.
            if rest.lstrip().startswith("<think>") and not self._calls(rest, request)[1]:
                thought, rest = rest, ""
        if thought := thought.strip().removeprefix("<think>").strip():
            parts.append(Thinking(thought))
        content, calls = self._calls(rest, request)
        if content := content.strip("\n") if mark else content:
            parts.append(Text(content))
        for position, call in enumerate(calls):
            call_id = call.id or made_call_id(call.name, call.arguments, written + position)
            parts.append(ToolCall(call_id, call.name, call.arguments))
        return tuple(parts)

    def _calls(self, text: str, request: CaptureRequest) -> tuple[str, Sequence[Any]]:
        if self._parser is None or not request.tools:
            return text, ()
        schemas = {
            tool["function"]["name"]: tool["function"].get("parameters") or {}
            for tool in request.tools
        }
        return self._parser.parse(text, schemas)


class ChatSource(CompletionSource):
    """Any server with chat completions. It renders the history itself, and returns ids if it knows
    `return_token_ids`, as vLLM does."""

    async def complete(
        self,
        request: CaptureRequest,
        recorder: TraceRecorder,  # noqa: ARG002 - the server renders the history
    ) -> Completion:
        fields: dict[str, Any] = {
            **request.options,
            "model": self._model(request),
            "messages": request.messages,
            "stream": False,
            "logprobs": True,
            "return_token_ids": True,
        }
        if request.tools:
            fields["tools"] = request.tools
        if request.max_tokens is not None:
            fields["max_tokens"] = request.max_tokens
        reply = await self._client.post("/v1/chat/completions", fields, _ChatReply)
        choice = reply.choices[0]
        message = from_dict({**choice.message, "role": "assistant"})
        assert isinstance(message, Assistant)  # because of its role
        parts = message.parts
        if not message.calls and self._parser is not None:
            parsed = self._parts(message.text, request, len(request.messages))
            thoughts = tuple(part for part in parts if isinstance(part, Thinking))
            parts = (*thoughts, *(p for p in parsed if not (thoughts and isinstance(p, Thinking))))
        prompt_ids, ids, logprobs = reply.prompt_token_ids, choice.token_ids, choice.values
        prompt_ids = choice.prompt_token_ids if prompt_ids is None else prompt_ids
        if prompt_ids is None or ids is None or len(ids) != len(logprobs):
            prompt_ids, ids, logprobs = None, None, []
        counts = reply.usage or _Counts()
        usage = Usage(counts.prompt_tokens, counts.completion_tokens or 0)
        calls = any(isinstance(part, ToolCall) for part in parts)
        finish = "tool_calls" if calls else choice.finish_reason or "stop"
        return Completion(parts, finish, prompt_ids, ids, logprobs, usage)


class Generation(msgspec.Struct, frozen=True):
    """Sampled tokens."""

    ids: list[int]
    logprobs: list[float]
    ended: bool  #: The last token is one that ends the turn.
    finish_reason: str


class TokenSource(CompletionSource):
    """A server that takes and returns tokens. The history is never rendered again."""

    REFUSED: ClassVar = ("response_format", "logit_bias")
    """Fields whose meaning cannot be kept."""
    # fmt: off
    DROPPED: ClassVar = frozenset({
        "stream_options", "parallel_tool_calls", "user", "store", "metadata", "reasoning_effort",
        "logprobs", "top_logprobs", "tool_choice", "n", "session_id", "return_token_ids",
    })
    # fmt: on
    """Fields of chat completions that do not change how tokens are sampled."""

    def __init__(self, client: ModelServerClient, parser: ToolCallParser | None) -> None:
        super().__init__(client, parser)
        self._end_ids: set[int] = set()  #: Tokens that ended a reply so far.

    async def complete(self, request: CaptureRequest, recorder: TraceRecorder) -> Completion:
        self._check(request)
        prompt = await self._prompt(request, recorder)
        generation = await self._generate(request, prompt)
        if not generation.ids or len(generation.ids) != len(generation.logprobs):
            counts = (
                f"{len(generation.ids)} tokens and {len(generation.logprobs)} log probabilities"
            )
            raise ReplyInvalid(f"{SERVER} sent {counts}")
        if generation.ended:
            self._end_ids.add(generation.ids[-1])
        shown = generation.ids[:-1] if generation.ended else generation.ids
        text = await self._detokenize(request, shown) if shown else ""
        parts = self._parts(text, request, len(request.messages))
        calls = any(isinstance(part, ToolCall) for part in parts)
        return Completion(
            parts,
            "tool_calls" if calls and generation.ended else generation.finish_reason,
            prompt,
            generation.ids,
            generation.logprobs,
            Usage(len(prompt), len(generation.ids)),
        )

    def _check(self, request: CaptureRequest) -> None:
        options = request.options
        contents = [message.get("content") for message in request.messages]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        if others := {str(part.get("type")) for part in parts if "text" not in part}:
            raise RequestRefused(
                f"the capture endpoint sends only text as tokens, not {', '.join(sorted(others))}",
                status=400,
                hint="use the server kind chat for images",
            )
        wrong = [name for name in self.REFUSED if options.get(name)]
        if options.get("tool_choice") not in (None, "auto"):
            wrong.append("tool_choice")
        if options.get("n") not in (None, 1):
            wrong.append("n")
        if wrong:
            raise RequestRefused(
                f"the capture endpoint cannot keep the meaning of {', '.join(wrong)}",
                status=400,
                hint="leave it out, or use the server kind chat",
            )

    def _sampling(self, request: CaptureRequest) -> dict[str, Any]:
        skipped = self.DROPPED | {"chat_template_kwargs", *self.REFUSED}
        return {name: value for name, value in request.options.items() if name not in skipped}

    async def _prompt(self, request: CaptureRequest, recorder: TraceRecorder) -> list[int]:
        """Return the ids of the longest recorded beginning and those of the rendered rest."""
        for node, count in recorder.find_replies(request.messages, request.tools):
            known = recorder.token_ids(node)
            if known is not None and count < len(request.messages):
                last = known[-1] if known and known[-1] in self._end_ids else None
                tail = await self._tail(request, count, last)
                if tail is not None:
                    return [*known, *await self._tokenize(request, tail)]
        return await self._render_ids(request)

    async def _tail(self, request: CaptureRequest, count: int, last: int | None) -> str | None:
        """Return the text that follows the reply before message `count`; None if the template does
        not show where the reply ends.

        The reply itself is rendered as a mark: how a template writes it, for example without its
        reasoning, must not matter. `last` is the token that ended the reply; None if the reply was
        cut off.
        """
        reply = request.messages[count - 1]
        calls = reply.get("tool_calls") or ()
        marked: list[JsonMessage] = [{"role": "assistant", "content": MARK}]
        if calls:
            *others, call = [
                {**each, "function": {**each["function"], "arguments": "{}"}} for each in calls
            ]
            named = {**call, "function": {"name": MARK, "arguments": "{}"}}
            # Some templates leave out the text of a reply with calls, and some name the function
            # of a call again with its result.
            marked = [
                {"role": "assistant", "content": MARK, "tool_calls": [*others, call]},
                {"role": "assistant", "content": "", "tool_calls": [*others, named]},
            ]
        end = "" if last is None else await self._detokenize(request, [last])
        for message in marked:
            messages = [*request.messages[: count - 1], message, *request.messages[count:]]
            text = await self._render_text(msgspec.structs.replace(request, messages=messages))
            if text.count(MARK) != 1:
                continue
            after = text.partition(MARK)[2]
            if last is None:
                return None if calls else after
            skipped, found, rest = after.partition(end) if end else ("", "", "")
            following = content_text(request.messages[count].get("content"))
            # What is skipped is the rest of the reply, never a part of what follows it.
            if found and (following not in skipped if calls and following else not skipped.strip()):
                return rest
        return None

    @abstractmethod
    async def _render_ids(self, request: CaptureRequest) -> list[int]:
        """Return the ids of the whole prompt, for the first call of a branch."""

    @abstractmethod
    async def _render_text(self, request: CaptureRequest) -> str: ...
    @abstractmethod
    async def _tokenize(self, request: CaptureRequest, text: str) -> list[int]: ...
    @abstractmethod
    async def _detokenize(self, request: CaptureRequest, ids: Sequence[int]) -> str: ...
    @abstractmethod
    async def _generate(self, request: CaptureRequest, prompt: list[int]) -> Generation: ...


class LlamaCppSource(TokenSource):
    """llama.cpp's server, and with it the embedded model."""

    async def _render_text(self, request: CaptureRequest) -> str:
        body: dict[str, Any] = {"messages": request.messages}
        if request.tools:
            body["tools"] = request.tools
        if given := request.options.get("chat_template_kwargs"):
            body["chat_template_kwargs"] = given
        return (await self._client.post("/apply-template", body, _PromptText)).prompt

    async def _render_ids(self, request: CaptureRequest) -> list[int]:
        return await self._tokenize(request, await self._render_text(request))

    async def _tokenize(
        self,
        request: CaptureRequest,  # noqa: ARG002 - the server has one model
        text: str,
    ) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": True}
        return (await self._client.post("/tokenize", body, _Tokens)).tokens

    async def _detokenize(
        self,
        request: CaptureRequest,  # noqa: ARG002 - the server has one model
        ids: Sequence[int],
    ) -> str:
        body = {"tokens": list(ids)}
        return (await self._client.post("/detokenize", body, _LlamaText)).content

    async def _generate(self, request: CaptureRequest, prompt: list[int]) -> Generation:
        # A cached prompt is evaluated in other batches, which changes the last digits of the
        # probabilities.
        body: dict[str, Any] = {"cache_prompt": False, **self._sampling(request)}
        body |= {"prompt": prompt, "return_tokens": True, "n_probs": 1, "stream": False}
        if request.max_tokens is not None:
            body["n_predict"] = request.max_tokens
        reply = await self._client.post("/completion", body, _LlamaCompletion)
        logprobs = [each.logprob for each in reply.completion_probabilities]
        finish = "length" if reply.stop_type == "limit" else "stop"
        return Generation(reply.tokens, logprobs, reply.stop_type == "eos", finish)


class VllmSource(TokenSource):
    """vLLM with its tokens-in, tokens-out endpoint."""

    async def _render_ids(self, request: CaptureRequest) -> list[int]:
        body: dict[str, Any] = {"messages": request.messages, "add_generation_prompt": True}
        if request.tools:
            body["tools"] = request.tools
        if given := request.options.get("chat_template_kwargs"):
            body["chat_template_kwargs"] = given
        return (await self._post("/tokenize", request, body, _Tokens)).tokens

    async def _render_text(self, request: CaptureRequest) -> str:
        return await self._detokenize(request, await self._render_ids(request))

    async def _tokenize(self, request: CaptureRequest, text: str) -> list[int]:
        body = {"prompt": text, "add_special_tokens": False}
        return (await self._post("/tokenize", request, body, _Tokens)).tokens

    async def _detokenize(self, request: CaptureRequest, ids: Sequence[int]) -> str:
        body = {"tokens": list(ids)}
        return (await self._post("/detokenize", request, body, _PromptText)).prompt

    async def _generate(self, request: CaptureRequest, prompt: list[int]) -> Generation:
        # Without a limit of the agent, the server's own default of 16 must not apply.
        sampling = {**self._sampling(request), "logprobs": 0, "max_tokens": request.max_tokens}
        body = {"token_ids": prompt, "sampling_params": sampling, "stream": False}
        reply = await self._post("/inference/v1/generate", request, body, _ChatReply)
        choice = reply.choices[0]
        finish = choice.finish_reason or "stop"
        # A stop string ends a reply with an ordinary token.
        ended = finish == "stop" and not isinstance(choice.stop_reason, str)
        return Generation(choice.token_ids or [], choice.values, ended, finish)

    async def _post(
        self, path: str, request: CaptureRequest, body: dict[str, Any], form: type[Form]
    ) -> Form:
        return await self._client.post(path, {"model": self._model(request), **body}, form)


class SglangSource(VllmSource):
    """SGLang with its own `/generate`. It renders a chat as vLLM does, with `/tokenize`."""

    RENAMED: ClassVar = {"seed": "sampling_seed", "min_tokens": "min_new_tokens"}
    """Options that `/generate` calls something else."""

    async def _render_ids(self, request: CaptureRequest) -> list[int]:
        try:
            return await super()._render_ids(request)
        except RequestRefused as error:
            error.hint = (
                "if its /tokenize does not take messages, update SGLang, or use the server kind"
                " chat, whose samples may not be token-exact"
            )
            raise

    async def _detokenize(self, request: CaptureRequest, ids: Sequence[int]) -> str:
        body = {"tokens": list(ids), "skip_special_tokens": False}
        return (await self._post("/detokenize", request, body, _SglangText)).text

    async def _generate(self, request: CaptureRequest, prompt: list[int]) -> Generation:
        given = self._sampling(request).items()
        sampling = {self.RENAMED.get(name, name): value for name, value in given}
        # Without a limit of the agent, the server's own default of 128 must not apply.
        sampling["max_new_tokens"] = request.max_tokens
        body = {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}
        meta = (await self._client.post("/generate", body, _SglangReply)).meta_info
        finish = meta.finish_reason
        if finish.type == "abort":
            raise ServerFault(f"{SERVER} aborted the reply: {finish.message}", status=500)
        ids = [token for _logprob, token, _text in meta.output_token_logprobs]
        logprobs = [logprob for logprob, _token, _text in meta.output_token_logprobs]
        # A stop string ends a reply with an ordinary token.
        ended = bool(ids) and finish.type == "stop" and finish.matched == ids[-1]
        return Generation(ids, logprobs, ended, "length" if finish.type == "length" else "stop")


SOURCES: dict[ServerKind, type[CompletionSource]] = {
    "llama.cpp": LlamaCppSource,
    "vllm": VllmSource,
    "sglang": SglangSource,
    "chat": ChatSource,
}
