"""Helpers without knowledge of Hermes. Its modules are its surface."""

__all__ = [
    "bundled", "circuit_breaker", "concurrency", "extras", "files", "hosts", "http", "jsonrpc",
    "lazy", "locks", "processes", "text",
]  # fmt: skip
