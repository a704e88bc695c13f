"""The Discord platform, through discord.py."""
