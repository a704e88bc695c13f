"""The parser `qwen`."""

from hermes.envs.parsers import get_parser

parser = get_parser("qwen")
