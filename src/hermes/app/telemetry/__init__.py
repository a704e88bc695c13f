"""Spans of what the agent does, for an OpenTelemetry collector. Off, nothing of it is loaded."""
