"""Another machine, over SSH."""
