"""Matrix: the client-server API spoken here, encryption by matrix-nio."""
