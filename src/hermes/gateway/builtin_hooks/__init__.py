"""Hooks that every gateway has, before those in `<home>/hooks/`.

A hook is a folder here with HOOK.yaml and handler.py, as in a home (`gateway.hooks`). There is none
at present: BOOT.md, which other programs do by a hook, takes longer than a hook may and is done by
`gateway.boot`.
"""
