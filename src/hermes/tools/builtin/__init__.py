"""The built-in tools: one module for each, named like the tool.

`hermes.tools.registry` finds the modules by file name and takes what `@tool` decorates in each.
"""
