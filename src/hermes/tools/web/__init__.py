"""web_search and web_extract, and what they need of the web."""
