"""What each source says of its experiments: one module for each, with its claims and its tables."""
