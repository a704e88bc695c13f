"""An HTTP API that programs made for OpenAI can use."""
