"""How the agent was used: figures from the session store."""
