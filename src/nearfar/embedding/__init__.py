"""What a fit gives: ids with vectors, rows in less memory, parts of words, their own file and index."""
