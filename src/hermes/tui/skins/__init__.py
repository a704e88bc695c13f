"""Skins: those that come with Hermes, and those of the user."""
