"""The parser `glm45`."""

from hermes.envs.parsers import get_parser

parser = get_parser("glm45")
