"""Where skills come from, one module for each kind of place."""
