"""A memory of single facts in a local file, linked by what they are about."""
