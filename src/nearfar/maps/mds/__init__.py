"""Metric scaling: maps whose distances are those of the data; stress in its several forms."""
