"""Lists of models in the shape each kind of endpoint gives them, cut down to a few rows."""

OPENAI = {
    "object": "list",
    "data": [
        {"id": "gpt-6-sol", "object": "model", "created": 1790000000, "owned_by": "system"},
        {"id": "text-embedding-3-small", "object": "model", "created": 1705948997},
    ],
}

OPENROUTER = {
    "data": [
        {
            "id": "anthropic/claude-sonnet-5.5",
            "canonical_slug": "anthropic/claude-5.5-sonnet",
            "name": "Anthropic: Claude Sonnet 5.5",
            "context_length": 1000000,
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
            "pricing": {
                "prompt": "0.000002",
                "completion": "0.00001",
                "request": "0",
                "input_cache_read": "0.0000001",
                "input_cache_write": "0.0000025",
            },
            "top_provider": {"context_length": 1000000, "max_completion_tokens": 128000},
            "supported_parameters": ["include_reasoning", "max_tokens", "reasoning", "tools"],
        },
        {
            "id": "openrouter/auto",
            "name": "Auto Router",
            "context_length": 2000000,
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "pricing": {"prompt": "-1", "completion": "-1"},
            "top_provider": {"context_length": None, "max_completion_tokens": None},
            "supported_parameters": [],
        },
        {
            "id": "black-forest-labs/flux.2",
            "context_length": 4096,
            "architecture": {"input_modalities": ["text"], "output_modalities": ["image"]},
            "pricing": {"prompt": "0", "completion": "0"},
            "supported_parameters": [],
            "expiration_date": "2026-12-31",
        },
    ]
}

VERCEL = {
    "object": "list",
    "data": [
        {
            "id": "openai/gpt-6-luna",
            "object": "model",
            "name": "GPT-6 Luna",
            "type": "language",
            "context_window": 1050000,
            "max_tokens": 128000,
            "tags": ["reasoning", "tool-use", "vision", "implicit-caching"],
            "pricing": {
                "input": "0.0000001",
                "output": "0.0000005",
                "input_cache_read": "0.00000001",
            },
        },
        {
            "id": "meta/llama-2-7b",
            "type": "language",
            "context_window": 4096,
            "max_tokens": 4096,
            "tags": [],
            "pricing": {"input": "0.0000001", "output": "0.0000001"},
        },
        {"id": "openai/text-embedding-3-small", "type": "embedding", "pricing": {"input": "0"}},
        {"id": "bfl/flux-pro-1.1", "type": "image", "tags": ["tool-use"]},
    ],
}

ANTHROPIC = {
    "data": [
        {
            "type": "model",
            "id": "claude-opus-5-5",
            "display_name": "Claude Opus 5.5",
            "created_at": "2026-09-30T00:00:00Z",
            "max_input_tokens": 1000000,
            "max_tokens": 128000,
            "capabilities": {
                "image_input": {"supported": True},
                "thinking": {"supported": True, "types": {"adaptive": {"supported": True}}},
                "effort": {"supported": True},
            },
        },
        {
            "type": "model",
            "id": "claude-haiku-4-5-20251001",
            "display_name": "Claude Haiku 4.5",
            "created_at": "2025-10-01T00:00:00Z",
        },
    ],
    "has_more": False,
    "first_id": "claude-opus-5-5",
    "last_id": "claude-haiku-4-5-20251001",
}

GEMINI = {
    "object": "list",
    "data": [
        {"id": "models/gemini-3.8-flash", "object": "model", "owned_by": "google"},
        {"id": "models/gemini-embedding-2", "object": "model", "owned_by": "google"},
    ],
}

MISTRAL = {
    "object": "list",
    "data": [
        {
            "id": "mistral-large-2512",
            "object": "model",
            "name": "mistral-large-2512",
            "max_context_length": 262144,
            "aliases": ["mistral-large-latest"],
            "deprecation": None,
            "capabilities": {
                "completion_chat": True,
                "function_calling": True,
                "vision": True,
                "reasoning": False,
            },
        },
        {
            "id": "mistral-embed",
            "max_context_length": 8192,
            "aliases": [],
            "deprecation": "2027-01-01",
            "capabilities": {"completion_chat": False, "function_calling": False, "vision": False},
        },
    ],
}

GROQ = {
    "object": "list",
    "data": [
        {
            "id": "openai/gpt-oss-120b",
            "object": "model",
            "active": True,
            "context_window": 131072,
            "max_completion_tokens": 65536,
            "public_apps": None,
        },
        {"id": "gemma2-9b-it", "active": False, "context_window": 8192},
    ],
}

XAI = {
    "models": [
        {
            "id": "grok-4.7",
            "fingerprint": "fp_1",
            "object": "model",
            "input_modalities": ["text", "image"],
            "output_modalities": ["text"],
            "prompt_text_token_price": 20000,
            "cached_prompt_text_token_price": 5000,
            "prompt_image_token_price": 20000,
            "completion_text_token_price": 60000,
            "aliases": ["grok-4.7-latest", "grok-latest"],
        }
    ]
}

HUGGING_FACE = {
    "object": "list",
    "data": [
        {
            "id": "zai-org/GLM-5.3",
            "object": "model",
            "owned_by": "zai-org",
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "providers": [
                {
                    "provider": "novita",
                    "status": "live",
                    "context_length": 204800,
                    "pricing": {"input": 1.4, "output": 4.4},
                    "supports_tools": True,
                },
                {
                    "provider": "cheap",
                    "status": "live",
                    "context_length": 131072,
                    "pricing": {"input": 0.5, "output": 2},
                    "supports_tools": False,
                },
                {"provider": "silent", "status": "live"},
            ],
        }
    ],
}

COPILOT = {
    "object": "list",
    "data": [
        {
            "id": "claude-sonnet-5",
            "name": "Claude Sonnet 5",
            "object": "model",
            "vendor": "Anthropic",
            "model_picker_enabled": True,
            "capabilities": {
                "family": "claude-sonnet-5",
                "type": "chat",
                "limits": {
                    "max_context_window_tokens": 200000,
                    "max_output_tokens": 64000,
                    "max_prompt_tokens": 168000,
                },
                "supports": {"streaming": True, "tool_calls": True, "vision": True},
            },
        },
        {
            "id": "gpt-3.5-turbo",
            "model_picker_enabled": False,
            "capabilities": {"type": "chat", "limits": {"max_context_window_tokens": 16384}},
        },
    ],
}

VLLM = {
    "object": "list",
    "data": [
        {"id": "Qwen/Qwen3-32B", "object": "model", "owned_by": "vllm", "max_model_len": 40960}
    ],
}

LLAMA_CPP = {
    "object": "list",
    "models": [{"name": "qwen.gguf", "model": "qwen.gguf", "capabilities": ["completion"]}],
    "data": [
        {
            "id": "qwen.gguf",
            "object": "model",
            "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 151936, "n_ctx_train": 32768, "n_params": 1543714},
        }
    ],
}

LM_STUDIO = {
    "object": "list",
    "data": [
        {
            "id": "qwen3.5-9b",
            "object": "model",
            "type": "vlm",
            "state": "loaded",
            "max_context_length": 262144,
            "loaded_context_length": 16384,
            "capabilities": ["tool_use"],
        },
        {"id": "nomic-embed-text", "type": "embeddings", "max_context_length": 2048},
    ],
}

OLLAMA_TAGS = {"models": [{"name": "qwen3:14b", "model": "qwen3:14b", "size": 9276198565}]}

TOGETHER = [
    {
        "id": "deepseek-ai/DeepSeek-V4-Pro",
        "object": "model",
        "type": "chat",
        "display_name": "DeepSeek V4 Pro",
        "context_length": 1000000,
        "pricing": {"hourly": 0, "input": 1.4, "output": 4.2, "base": 0},
    },
    {"id": "togethercomputer/m2-bert", "type": "embedding", "pricing": {"input": 0.01}},
]

MOONSHOT = {
    "object": "list",
    "data": [
        {
            "id": "kimi-k3",
            "object": "model",
            "owned_by": "moonshot",
            "context_length": 1048576,
            "supports_image_in": True,
            "supports_reasoning": True,
        }
    ],
}
