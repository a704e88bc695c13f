"""Copies of a home in one private file: made while it is in use, checked, brought back as a whole.

`contents` says what belongs to a copy, `archive` writes it, `reading` distrusts it, `restoring`
puts it in place, `snapshots` keeps small ones inside the home.
"""
