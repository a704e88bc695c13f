"""Parsing of shell command lines without running them: which programs they would start, and how.

`unfold_command` returns every program, also behind wrappers and inside text. Internal, except for
the skill scanner.
"""
