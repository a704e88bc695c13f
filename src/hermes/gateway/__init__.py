"""Chats on messaging platforms: what comes in becomes turns, what the agent says goes out, once."""
