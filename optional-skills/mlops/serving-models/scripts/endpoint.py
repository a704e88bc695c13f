"""Check a model server that speaks the OpenAI interface, measure it, and estimate memory.

  endpoint.py check http://127.0.0.1:8080/v1 --tools --json
  endpoint.py check http://127.0.0.1:8000/v1 --model NAME --parallel 8 --tokens 200
  endpoint.py memory --params 8 --bits 4.5 --context 32768 --layers 32 --kv-heads 8 --head-size 128

`check` lists the models, asks one question, streams one, and with --parallel asks several at once.
A key is read from OPENAI_API_KEY. The values for `memory` stand in the model's config.json.
Exit code: 0 all worked, 1 something did not, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; the key is a variable of the environment

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

GIB = 1 << 30
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        },
    },
}  # fmt: skip
SCHEMA = {
    "type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"], "additionalProperties": False,
}  # fmt: skip


class Problem(Exception):
    """What the server did not do."""


class Endpoint:
    def __init__(self, url: str, model: str, seconds: float) -> None:
        self.url = url.rstrip("/")
        self.seconds = seconds
        self.model = model

    def open(self, path: str, body: Any = None) -> Any:
        heads = {"Content-Type": "application/json"}
        if os.environ.get("OPENAI_API_KEY"):
            heads["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=heads)
        try:
            return urllib.request.urlopen(request, timeout=self.seconds)
        except urllib.error.HTTPError as error:
            words = error.read(500).decode("utf-8", "replace").strip()
            raise Problem(f"{path}: {error.code} {words}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Problem(f"{path}: no answer: {error}") from None

    def ask(self, text: str, tokens: int, **more: Any) -> dict[str, Any]:
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], **more}
        with self.open("/chat/completions", {**body, "max_tokens": tokens}) as answer:
            try:
                return dict(json.loads(answer.read())["choices"][0])
            except (ValueError, LookupError, TypeError):
                raise Problem("/chat/completions: the answer has no choices") from None

    def stream(self, text: str, tokens: int) -> tuple[float, float, int]:
        """Seconds to the first text, seconds in all, and tokens."""
        body = {
            "model": self.model, "messages": [{"role": "user", "content": text}], "stream": True,
            "max_tokens": tokens, "stream_options": {"include_usage": True},
        }  # fmt: skip
        start = time.monotonic()
        first, pieces, counted = 0.0, 0, 0
        with self.open("/chat/completions", body) as answer:
            for event in events(answer):
                for choice in event.get("choices") or []:
                    delta = choice.get("delta") or {}
                    if delta.get("content") or delta.get("reasoning_content"):
                        first = first or time.monotonic() - start
                        pieces += 1
                counted = (event.get("usage") or {}).get("completion_tokens", counted)
        if not pieces:
            raise Problem("the stream held no text")
        return first, time.monotonic() - start, counted or pieces


def events(answer: Any) -> Iterator[dict[str, Any]]:
    for raw in answer:
        line = raw.decode("utf-8", "replace").strip()
        if line.startswith("data:") and line != "data: [DONE]":
            try:
                yield json.loads(line[5:])
            except ValueError:
                raise Problem(f"the stream holds {line[:80]!r}") from None


def speed(endpoint: Endpoint, options: argparse.Namespace) -> str:
    first, seconds, tokens = endpoint.stream("Write about tea, in plain text.", options.tokens)
    rate = tokens / max(seconds - first, 1e-6)
    return f"stream: first text after {first:.2f} s, {tokens} tokens, {rate:.1f} tokens/s"


def several(endpoint: Endpoint, options: argparse.Namespace) -> str:
    found: list[tuple[float, float, int]] = []
    failures: list[Exception] = []

    def one() -> None:
        try:
            found.append(endpoint.stream("Write about tea, in plain text.", options.tokens))
        except Problem as problem:
            failures.append(problem)

    threads = [threading.Thread(target=one) for _ in range(options.parallel)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    if failures:
        raise Problem(f"{len(failures)} of {options.parallel} at once failed: {failures[0]}")
    tokens = sum(each[2] for each in found)
    worst = max(each[0] for each in found)
    rate = f"{tokens / seconds:.1f} tokens/s"
    return f"{options.parallel} at once: {rate}, first text within {worst:.2f} s"


def tool_call(endpoint: Endpoint, options: argparse.Namespace) -> str:
    asked = "What is the weather in Oslo? Use the tool."
    choice = endpoint.ask(asked, options.tokens, tools=[WEATHER], tool_choice="auto")
    calls = (choice.get("message") or {}).get("tool_calls") or []
    if not calls:
        said = (choice.get("message") or {}).get("content") or ""
        raise Problem(f"tools: no tool_calls in the answer, but text: {said[:80]!r}")
    try:
        arguments_ = json.loads(calls[0]["function"]["arguments"])
    except (ValueError, LookupError, TypeError):
        raise Problem("tools: the arguments of the call are no JSON") from None
    return f"tools: {calls[0]['function']['name']}({arguments_})"


def json_answer(endpoint: Endpoint, options: argparse.Namespace) -> str:
    kind = {
        "type": "json_schema",
        "json_schema": {"name": "city", "strict": True, "schema": SCHEMA},
    }
    choice = endpoint.ask("Name a city and its people.", options.tokens, response_format=kind)
    text = (choice.get("message") or {}).get("content") or ""
    try:
        found = json.loads(text)
        good = isinstance(found["city"], str) and isinstance(found["people"], int)
    except (ValueError, LookupError, TypeError):
        good = False
    if not good:
        raise Problem(f"json: the answer does not follow the schema: {text[:80]!r}")
    return f"json: {text.strip()}"


def check(options: argparse.Namespace) -> int:
    endpoint = Endpoint(options.url, options.model, options.seconds)
    try:
        with endpoint.open("/models") as answer:
            models = [str(each["id"]) for each in json.loads(answer.read())["data"]]
    except (ValueError, LookupError, TypeError):
        raise Problem("/models: no list of models") from None
    print(f"models: {', '.join(models)}")
    endpoint.model = options.model or models[0]

    def plain(endpoint: Endpoint, options: argparse.Namespace) -> str:
        choice = endpoint.ask("Say: ready", options.tokens)
        said = ((choice.get("message") or {}).get("content") or "").strip()
        if not said:
            raise Problem("the answer is empty")
        return f"answer: {said[:80]!r}, ended by {choice.get('finish_reason')}"

    steps = [plain, speed]
    steps += [tool_call] * options.tools + [json_answer] * options.json
    steps += [several] * (options.parallel > 1)
    failed = 0
    for step in steps:
        try:
            print(step(endpoint, options))
        except Problem as problem:
            failed += 1
            print(f"!! {problem}")
    return 1 if failed else 0


def memory(options: argparse.Namespace) -> int:
    weights = options.params * 1e9 * options.bits / 8
    # A key and a value for each layer, head and place of the context.
    cache = 2 * options.layers * options.kv_heads * options.head_size * options.cache_bits / 8
    cache *= options.context * options.parallel
    total = (weights + cache) * 1.05 + 0.5 * GIB
    parts = {"weights": weights, "context": cache, "in all": total}
    print(", ".join(f"{name} {size / GIB:.1f} GiB" for name, size in parts.items()))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    it = actions.add_parser("check", help="ask a server")
    it.set_defaults(run=check)
    it.add_argument("url", help="with /v1 at the end")
    it.add_argument("--model", default="", help="the first of the list")
    it.add_argument("--tokens", type=int, default=100, help="of each answer (100)")
    it.add_argument("--parallel", type=int, default=1, help="so many at once")
    it.add_argument("--tools", action="store_true", help="does it call tools?")
    it.add_argument("--json", action="store_true", help="does it follow a schema?")
    it.add_argument("--seconds", type=float, default=120, help="for each answer (120)")
    it = actions.add_parser("memory", help="how much a model needs")
    it.set_defaults(run=memory)
    it.add_argument("--params", type=float, required=True, help="billions: 8 for an 8B model")
    it.add_argument("--bits", type=float, default=16, help="of each weight: 16, 8, Q4_K_M 4.8")
    it.add_argument("--context", type=int, default=8192)
    it.add_argument("--parallel", type=int, default=1, help="full contexts at once")
    it.add_argument("--layers", type=int, default=32, help="num_hidden_layers")
    it.add_argument("--kv-heads", type=int, default=8, help="num_key_value_heads")
    it.add_argument("--head-size", type=int, default=128, help="head_dim")
    it.add_argument("--cache-bits", type=float, default=16, help="of the context: 16 or 8")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except Problem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
