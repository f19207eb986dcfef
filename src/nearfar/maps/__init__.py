"""Maps: points whose distances tell which of the data are alike."""
