"""Classes of dangerous commands: a module per topic, with its rules as data.

`rules_for` returns the rules for a program; `ShellContext` resolves the paths that its words
mean. Internal, except for the skill scanner.
"""
