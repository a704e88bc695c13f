"""The classes of dangerous commands: one module for each theme, its rules as data."""
