"""The store in one SQLite file: backend, schema, search, health check and repair."""
