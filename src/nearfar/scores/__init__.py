"""How alike two representations are."""
