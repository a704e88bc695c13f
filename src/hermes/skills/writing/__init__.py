"""Changing skills: by the agent, by a review of its work, or by the user."""
