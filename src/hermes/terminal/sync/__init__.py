"""Files brought to a host and back, many at once."""
