"""Plugins and shell hooks: code of others, found, asked for consent, run apart."""
