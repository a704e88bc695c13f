"""The gateway as a process: one for each home, seen, started and stopped from outside."""
