"""The hub: skills of other people, found, fetched, scanned, installed, kept up to date, shared."""
