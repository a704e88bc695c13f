"""The parser `qwen3_coder`."""

from hermes.envs.parsers import get_parser

parser = get_parser("qwen3_coder")
