"""The parser `hermes`."""

from hermes.envs.parsers import get_parser

parser = get_parser("hermes")
