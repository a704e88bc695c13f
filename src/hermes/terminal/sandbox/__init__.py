"""This machine, behind bubblewrap."""
