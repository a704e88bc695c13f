"""Snapshots of a workspace before the agent changes it, and the way back."""
