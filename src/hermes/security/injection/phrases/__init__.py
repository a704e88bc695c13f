"""What the rules look for: data only.

A phrase is a regular expression over a chain of plain small words with one space between them
(see `words`); `<3>` stands for up to three words of any kind. Every word is spelt out
(`rule|rules`), so that the words themselves can be read off a phrase, and every repetition is
bounded, so that a search takes linear time.
"""
