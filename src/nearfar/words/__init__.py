"""Words and what else occurs in windows: vectors, density matrices and senses, trained against noise."""
