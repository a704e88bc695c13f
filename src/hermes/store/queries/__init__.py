"""The statements of the store, one module a subject, in SQL that both databases know."""
