"""The queries of the store, one module per group of tables, in SQL that both databases share."""
