"""Context engines: what a conversation becomes when it no longer fits."""
