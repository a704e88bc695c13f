"""Slack, through slack-sdk and its Socket Mode."""
