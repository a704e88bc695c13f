"""One folder for each platform, with its manifest (data) and its adapter (the wire)."""
