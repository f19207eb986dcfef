"""Images on the cards of a page: small copies, within the page itself."""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import numpy as np

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import require
from nearfar._core.columns import is_missing, objects_of
from nearfar._core.ids import Ids
from nearfar.errors import InputError

_SIDE = 96  # pixels of the longer side
_SMALL = 48  # pixels up to which an image is as it was, without loss


def thumbnails(owner: str, images: object, ids: Ids) -> list[str]:
    """Return a small copy of the image of each point as an address that holds it; the empty text where there is none.

    Parameters
    ----------
    owner : str
        Named in errors.
    images : sequence, or mapping from ids
        Files, what they hold as bytes, arrays of shape (height, width) or (height, width, 3 or 4), images of Pillow.
    ids : Ids
        Of the points.
    """
    pillow: Any = require(owner, "PIL.Image", "plot")
    given = in_order_of(owner, "images", images, ids)
    listed = list(given) if isinstance(given, np.ndarray) and given.ndim > 1 else objects_of(given)  # type: ignore[arg-type]
    if len(listed) != len(ids):
        raise InputError(owner, "images", f"{len(ids)}, one for each id", len(listed))
    return [_small(owner, pillow, image, ids[row]) for row, image in enumerate(listed)]


def _small(owner: str, pillow: Any, image: object, key: object) -> str:
    if not isinstance(image, (np.ndarray, bytes)) and is_missing(image):
        return ""
    try:
        if isinstance(image, np.ndarray):
            opened = pillow.fromarray(_as_bytes(image))
        elif isinstance(image, bytes):
            opened = pillow.open(io.BytesIO(image))
        elif isinstance(image, (str, os.PathLike)):
            opened = pillow.open(image)
        else:
            opened = image.copy()  # type: ignore[attr-defined]
        opened.thumbnail((_SIDE, _SIDE))
        packed = io.BytesIO()
        opened = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
        opened.save(packed, "WEBP", lossless=max(opened.size) <= _SMALL, quality=75)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(owner, "images", "images, their files, bytes or arrays", f"{error} for {key!r}") from error
    return "data:image/webp;base64," + base64.b64encode(packed.getvalue()).decode()


def _as_bytes(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an image of whole numbers as it is, and of others from the darkest to the lightest."""
    if image.dtype == np.uint8:
        return image
    low, span = float(image.min()), float(np.ptp(image)) or 1.0
    return np.rint((image.astype(np.float64) - low) / span * 255).astype(np.uint8)
