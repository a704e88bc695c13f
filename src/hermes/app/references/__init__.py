"""`@` references in what the user types: files, folders, changes and pages behind the text."""
