"""The parser `glm47`."""

from hermes.envs.parsers import get_parser

parser = get_parser("glm47")
