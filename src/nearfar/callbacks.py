"""Callbacks: called after every epoch of a fit with a `Progress`; one that returns True ends the fit."""

from nearfar.optimize.callbacks import Checkpoint, Frame, Frames, Progress

__all__ = ["Checkpoint", "Frame", "Frames", "Progress"]
