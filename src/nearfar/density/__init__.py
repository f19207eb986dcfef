"""Density matrices and senses: embeddings of words that mean several things, phrases of them, what is part of what."""
