"""The documented Python names that have no module of ours with just that shape.

Reached through `hermes.compat` by plugins and scripts of users; nothing of ours uses them. They are
synchronous: what is async runs in the thread of `process.py`.
"""
