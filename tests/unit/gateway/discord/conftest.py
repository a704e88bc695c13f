"""discord.py imports `audioop`, for voice, which is on its way out of Python."""

import warnings
from importlib import import_module

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import_module("discord")
