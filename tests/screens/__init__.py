"""Programs in a terminal, and what is to be seen there."""
