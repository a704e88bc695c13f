"""Calls of other programs, signed, become messages; answers go where the route says."""
