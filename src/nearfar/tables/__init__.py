"""Small tables: sparse mixtures of anchors, their optimisers, and the relatives that they are compared with."""
