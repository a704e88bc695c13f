"""Terminal backends: places where commands run. Each folder has a manifest and a host."""
