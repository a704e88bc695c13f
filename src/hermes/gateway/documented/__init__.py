"""The documented Python names of the gateway that ours do not have as they are."""
