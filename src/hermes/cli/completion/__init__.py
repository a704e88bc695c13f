"""Completion scripts for shells, written from the parsers of the commands.

`tree` describes what can be typed where; `bash`, `zsh` and `fish` write it as a script. All three
scripts walk the words before the cursor in the same way: subcommands descend in the tree, an option
with a value consumes the next word, and every other word is an argument.
"""
