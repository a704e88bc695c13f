"""Keys and logins: where they are stored, which one is used next, and when they rest."""
