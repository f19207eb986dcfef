"""EDRep: unit vectors from any relation matrix, the softmax normaliser by a mixture of Gaussians."""
