"""The local platform: a chat in the terminal or over a Unix socket."""
