"""What the sources say: for each a TOML file of its words and their tests, and a module of what measures them."""
