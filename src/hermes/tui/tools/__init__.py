"""Tool calls as people see them in a terminal."""
