"""The parser `deepseek_v3`."""

from hermes.envs.parsers import get_parser

parser = get_parser("deepseek_v3")
