"""Helpers without knowledge of Hermes. Its modules are its surface."""

__all__ = [
    "circuit_breaker", "concurrency", "extras", "files", "http", "jsonrpc",
    "lazy", "processes", "text",
]  # fmt: skip
