"""Looking into past conversations."""
