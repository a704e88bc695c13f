"""What adapters share: formatting, splitting, media, mentions, buckets, reconnecting."""
