"""One module a tool; each holds its `ENTRY`. Found by their file names."""
