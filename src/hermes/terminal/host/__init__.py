"""A shell and files for any host that has a POSIX shell."""
