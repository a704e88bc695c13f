echo one two three | wc -w >count
