"""Settings, their files and the environment: the only package that reads either.

Its modules are its surface; `loader.load` returns the settings of a home and the origin of each
value.
"""

__all__ = [
    "document", "edit", "environment", "home", "installation", "loader", "reference", "schema",
    "settings",
]  # fmt: skip
