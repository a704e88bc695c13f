"""Scheduled work: jobs, when they are due, and running each instant once."""
