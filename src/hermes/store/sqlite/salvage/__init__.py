"""Brings back what can be read of a damaged `state.db`, page by page, without SQLite.

    geometry   how big a page is
    wal        the committed pages of the write-ahead log
    pages      a page by its number, in its newest version
    records    the values of a row
    btree      the rows of a leaf page, the leaves under a root
    freelist   pages that hold nothing any more
    catalog    where tables begin and what columns they have
    shapes     which table a row can belong to
    reader     every row of the file
    rebuild    a new store with these rows
    aside      the damaged files under a dated name

The format is the one described at https://www.sqlite.org/fileformat2.html.
"""
