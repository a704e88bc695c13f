"""Logins with an account instead of a key: OAuth flows, stored tokens and their renewal."""
