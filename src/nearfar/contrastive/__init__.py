"""Contrastive objectives for torch: losses, noise, candidates of a batch, bounds of mutual information."""
