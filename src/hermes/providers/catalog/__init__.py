"""What is known of models: limits, prices, abilities, and the lists of endpoints."""
