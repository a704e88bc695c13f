"""Documented Python names that no other module of ours has in that form.

Plugins and scripts of users reach them through `hermes.compat`; Hermes itself does not use them.
The functions are synchronous: they run coroutines in the event loop thread of `runtime`.
"""
