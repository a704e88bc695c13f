"""What the agent remembers over sessions."""
