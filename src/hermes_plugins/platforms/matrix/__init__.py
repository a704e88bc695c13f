"""The Matrix platform: its own client of the client-server API, with encryption by matrix-nio."""
