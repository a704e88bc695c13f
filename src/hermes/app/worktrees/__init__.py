"""Worktree mode: a session works in a git worktree of its own, which goes when nothing is in it."""
