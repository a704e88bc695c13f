"""Tests that an extension has to pass. They need pytest, and anyio for asynchronous tests."""
