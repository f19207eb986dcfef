"""What the lab compares with: one small function for each, which an experiment names in one line."""
