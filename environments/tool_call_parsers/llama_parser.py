"""The parser `llama3_json`."""

from hermes.envs.parsers import get_parser

parser = get_parser("llama3_json")
