"""The parser `kimi_k2`."""

from hermes.envs.parsers import get_parser

parser = get_parser("kimi_k2")
