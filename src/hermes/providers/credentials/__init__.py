"""Keys and logins: where they are kept, which one is next, and how a token stays fresh."""
