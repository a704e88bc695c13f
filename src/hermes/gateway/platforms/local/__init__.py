"""A platform on this machine: a terminal, or a Unix socket that scripts and tests talk through."""
