"""What the model is told before the conversation begins, and while it works."""
