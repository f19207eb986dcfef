"""The estimators, one file per family."""
