"""Callbacks: called after every epoch of a fit with a `Progress`; one that returns True ends the fit."""

from nearfar.optimize.callbacks import Checkpoint, EarlyStopping, Frame, Frames, Progress

__all__ = ["Checkpoint", "EarlyStopping", "Frame", "Frames", "Progress"]
