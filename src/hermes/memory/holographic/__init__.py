"""The local memory provider: single facts in an SQLite file, linked by the entities they mention.

`provider` is the provider and its tool, `store` the file, `recall` the search, `extraction` the
patterns that find facts in text.
"""
