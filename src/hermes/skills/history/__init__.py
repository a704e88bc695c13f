"""Every change of the user's skills, with its reason, so that each can be seen and undone."""
