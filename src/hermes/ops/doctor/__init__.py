"""Checks of the whole installation, with fixes, for `hermes doctor`."""
