"""Telegram's Bot API on this machine: real HTTP, kept in memory, as documented by Telegram."""
