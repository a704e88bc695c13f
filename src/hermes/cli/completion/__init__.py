"""Completion scripts for shells, written from the parsers of the commands.

`tree` is what can be typed where, `bash`, `zsh` and `fish` say it in the language of a shell. All
three scripts walk the words before the cursor in the same way: words that are subcommands lead down
the tree, options that take a value swallow the next word, everything else is an argument.
"""
