"""Skills: instructions the agent loads when a task calls for them, and writes for itself."""
