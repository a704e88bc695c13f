"""Containers in the cloud."""
