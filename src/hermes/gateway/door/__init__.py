"""Who may talk to the agent, how a stranger gets in, and what each may do."""
