"""What is related to what, and how strongly."""
