"""What stands around typing: the input, its keys, its history, completion, pastes and pictures."""
