"""The vocabulary every other package speaks: messages, events, errors, usage and Protocols."""
