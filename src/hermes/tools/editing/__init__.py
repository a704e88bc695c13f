"""Changing files: finding the place, keeping what was there, telling what happened."""
