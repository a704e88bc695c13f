"""The parser `deepseek_v3_1`."""

from hermes.envs.parsers import get_parser

parser = get_parser("deepseek_v3_1")
