"""The parts of a session store, each over the same engine."""
