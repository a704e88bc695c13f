"""`environments.tool_call_parsers`, for programs that run in the parent of `environments`."""

from hermes.envs.parsers import get_parser, list_parsers

__all__ = ["get_parser", "list_parsers"]
