"""Engines beside the threads of one machine: the workers of a cluster."""
