"""The parser `mistral`."""

from hermes.envs.parsers import get_parser

parser = get_parser("mistral")
