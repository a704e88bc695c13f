"""Models that are agent programs on this machine, over the Agent Client Protocol."""
