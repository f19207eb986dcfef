"""Relations: what is related to what, and how strongly; their algebra, neighbours, probabilities of neighbours."""
