"""Finding messages: the query language, ranking and snippets, the same for every database."""
