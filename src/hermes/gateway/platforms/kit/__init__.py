"""What the adapters share: the contract, connections, inbound delivery, rate limits, media and
Markdown."""
