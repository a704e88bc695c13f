"""A model server with tokens on the wire, as vLLM, SGLang and llama.cpp have them, and replies of a
script. SGLang's part is written from its documentation: it cannot run without a GPU.

A token is a character. The model samples from a second set of tokens for the same characters, so
that ids which were rendered and tokenized again differ from the sampled ones, as they may with a
real tokenizer.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from hermes.core.testing.http_server import Action, LoopbackServer, Outgoing, RecordedRequest

SAMPLED = 2_000_000  #: Added to a character that the model sampled.
# fmt: off
SPECIAL = {
    mark: 5_000_000 + number
    for number, mark in enumerate((
        "<|im_start|>", "<|im_end|>", "<|user|>", "<|observation|>", "<|assistant|>", "<|eom_id|>",
    ))
}
# fmt: on
END = SPECIAL["<|im_end|>"]


Template = Callable[[Sequence[dict[str, Any]], Sequence[Any]], str]


def tokenize(text: str) -> list[int]:
    ids: list[int] = []
    while text:
        mark = next((mark for mark in SPECIAL if text.startswith(mark)), "")
        ids.append(SPECIAL[mark] if mark else ord(text[0]))
        text = text[len(mark) or 1 :]
    return ids


def detokenize(ids: Iterable[int]) -> str:
    names = {number: mark for mark, number in SPECIAL.items()}
    return "".join(names.get(each) or chr(each % SAMPLED) for each in ids)


def sampled(text: str) -> list[int]:
    return [ord(char) + SAMPLED for char in text]


def render(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """A template that drops earlier reasoning and writes calls in its own way."""
    text = f"<|im_start|>tools {json.dumps(tools)}<|im_end|>\n" if tools else ""
    for message in messages:
        content = message.get("content") or ""
        for call in message.get("tool_calls") or ():
            function = call["function"]
            content += f'\n<tool_call>\n{{"arguments": {function["arguments"]}'
            content += f', "name": "{function["name"]}"}}\n</tool_call>'
        text += f"<|im_start|>{message['role']}\n{content}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def render_without_text(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """A template that leaves out the text of a reply with calls."""
    kept = [{**m, "content": ""} if m.get("tool_calls") else m for m in messages]
    return render(kept, tools)


def render_names(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """A template that names the function of a call again with its result."""
    calls = {c["id"]: c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()}
    named = [
        {**m, "content": f"{calls[m['tool_call_id']]}: {m['content']}"}
        if m["role"] == "tool"
        else m
        for m in messages
    ]
    return render(named, tools)


def render_roles(messages: Sequence[dict[str, Any]], _tools: Sequence[Any]) -> str:
    """A template as GLM has it: a reply ends with the mark of the next role."""
    marks = {"user": "<|user|>", "tool": "<|observation|>", "assistant": "<|assistant|>"}
    text = ""
    for message in messages:
        calls = "".join(
            f"<tool_call>{c['function']['name']}" for c in message.get("tool_calls") or ()
        )
        text += f"{marks.get(message['role'], '')}\n{message['content']}{calls}"
    return f"{text}<|assistant|>\n"


GENERATE = ("/completion", "/inference/v1/generate", "/generate")
# fmt: off
SGLANG_SAMPLING = {
    "max_new_tokens", "stop", "stop_token_ids", "temperature", "top_p", "top_k", "min_p",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens",
    "sampling_seed",
}
# fmt: on
"""The documented fields of `sampling_params`; others are refused."""


class TokenServer:
    """A reply that ends in ✂ is cut off by the token limit and has no end token."""

    def __init__(
        self,
        replies: Sequence[str],
        *,
        ids: bool = True,
        status: int = 200,
        delay: float = 0.0,
        template: Template = render,
        end: str = "<|im_end|>",
        renders: bool = True,
    ) -> None:
        """Replies come after `delay` seconds and end with the mark `end`. Without `renders`,
        `/tokenize` takes no messages, as in old versions of SGLang."""
        self._renders = renders
        self._render, self._end = template, SPECIAL[end]
        self._replies, self._ids, self._status = list(replies), ids, status
        self._delay = delay
        self.prompts: list[list[int]] = []
        self.requests: list[RecordedRequest] = []

    def __enter__(self) -> Self:
        self._http = LoopbackServer(self._respond)
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.port}"

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        status, body = 200, {}
        if self._status != 200 and request.path in GENERATE:
            status, body = self._status, {"error": {"message": "the server is full"}}
        elif not self._renders and "messages" in request.body:
            status, body = 400, {"message": "prompt: Field required"}
        else:
            body = getattr(self, f"_{request.path.strip('/').replace('/', '_')}".replace("-", "_"))(
                request.body
            )
        actions: list[Action] = [json.dumps(body).encode()]
        if self._delay and request.path in GENERATE:
            actions.insert(0, self._delay)
        return Outgoing(status, {"Content-Type": "application/json"}, actions)

    @property
    def hangups(self) -> int:
        """Requests whose client left before the reply."""
        return self._http.hangups

    def _take(self, prompt: list[int]) -> tuple[list[int], list[float], bool]:
        self.prompts.append(prompt)
        text = self._replies.pop(0)
        cut = text.endswith("✂")
        ids = sampled(text.removesuffix("✂")) + ([] if cut else [self._end])
        return ids, [-0.01 * (number + 1) for number in range(len(ids))], cut

    # llama.cpp

    def _apply_template(self, body: dict[str, Any]) -> Any:
        return {"prompt": self._render(body["messages"], body.get("tools") or [])}

    def _tokenize(self, body: dict[str, Any]) -> Any:
        if "messages" in body:  # vLLM
            return {"tokens": tokenize(self._render(body["messages"], body.get("tools") or []))}
        return {"tokens": tokenize(body.get("content") or body.get("prompt"))}

    def _detokenize(self, body: dict[str, Any]) -> Any:
        text = detokenize(body["tokens"])
        special = set(SPECIAL.values()) if body.get("skip_special_tokens", True) else set()
        plain = detokenize(each for each in body["tokens"] if each not in special)
        return {"content": text, "prompt": text, "text": plain}

    def _completion(self, body: dict[str, Any]) -> Any:
        ids, logprobs, cut = self._take(body["prompt"])
        pairs = [{"id": each, "logprob": p} for each, p in zip(ids, logprobs, strict=True)]
        stop = "limit" if cut else "eos"
        return {"tokens": ids, "completion_probabilities": pairs, "stop_type": stop}

    # SGLang

    def _generate(self, body: dict[str, Any]) -> Any:
        sampling = body["sampling_params"]
        assert set(sampling) <= SGLANG_SAMPLING, sampling
        assert sampling.get("max_new_tokens", 128) != 128, "the default would cut replies"
        ids, logprobs, cut = self._take(body["input_ids"])
        finish = {"type": "length", "length": len(ids)} if cut else {"type": "stop"}
        meta = {
            "id": "1",
            "finish_reason": finish if cut else {**finish, "matched": ids[-1]},
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(ids),
        }
        if body.get("return_logprob"):
            pairs = zip(logprobs, ids, strict=True)
            meta["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
        return {"text": detokenize(ids[:-1]), "output_ids": ids, "meta_info": meta}

    # vLLM

    def _inference_v1_generate(self, body: dict[str, Any]) -> Any:
        ids, logprobs, cut = self._take(body["token_ids"])
        content = [{"logprob": each} for each in logprobs]
        finish = "length" if cut else "stop"
        choice = {"token_ids": ids, "logprobs": {"content": content}, "finish_reason": finish}
        return {"choices": [choice]}

    def _v1_chat_completions(self, body: dict[str, Any]) -> Any:
        prompt = tokenize(self._render(body["messages"], body.get("tools") or []))
        ids, logprobs, _cut = self._take(prompt)
        choice: dict[str, Any] = {
            "message": {"role": "assistant", "content": detokenize(ids[:-1])},
            "finish_reason": "stop",
            "logprobs": {"content": [{"logprob": each} for each in logprobs]},
        }
        known = {"prompt_token_ids": prompt} if self._ids else {}
        if self._ids:
            choice["token_ids"] = ids
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        return {"choices": [choice], "usage": usage, **known}
