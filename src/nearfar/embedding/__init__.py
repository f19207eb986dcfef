"""What a fit gives: ids with vectors, density matrices or mixtures of anchors; search; files."""
