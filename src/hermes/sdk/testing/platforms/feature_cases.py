"""Moved; see the package."""
