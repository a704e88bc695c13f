"""This machine: its shell, its processes and its files."""
