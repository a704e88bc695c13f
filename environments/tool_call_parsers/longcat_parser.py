"""The parser `longcat`."""

from hermes.envs.parsers import get_parser

parser = get_parser("longcat")
