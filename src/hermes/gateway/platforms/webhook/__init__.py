"""Webhooks: signed HTTP requests become messages; replies go where the route says."""
