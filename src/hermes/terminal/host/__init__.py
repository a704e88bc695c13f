"""A shell and files on any host that has a POSIX shell."""
