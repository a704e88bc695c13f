"""Commands in the background, of any shell."""
