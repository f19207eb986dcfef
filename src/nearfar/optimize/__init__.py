"""Solvers, schedules and stopping."""
