"""Text of the user in pictures: as it is written, in the fonts that matplotlib knows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from nearfar._core.warn import warn_user

if TYPE_CHECKING:
    from matplotlib.text import Text

# Families that have many scripts, for letters that those of the picture lack.
_MANY_SCRIPTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei"),
    *("SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Malgun Gothic", "Yu Gothic"),
    *("Apple SD Gothic Neo", "Arial Unicode MS", "Nirmala UI", "Noto Sans", "Segoe UI", "FreeSans", "DejaVu Sans"),
)
_BOX = "\u25a1"  # for a letter that no font has


def as_written(text: Text) -> Text:
    """Return a text of a picture that comes from the user, in which $ is no sign of mathematics."""
    text.set_parse_math(False)
    shown, families = shown_in(text.get_text(), text.get_fontfamily())
    text.set_fontfamily(families)
    text.set_text(shown)
    return text


def shown_in(text: str, families: list[str]) -> tuple[str, list[str]]:
    """Return a text, and families of fonts, these first, that have its letters; one that none has becomes a box.

    Half a character, which is in no font, becomes a question mark.
    """
    shown = text.encode("utf-8", "replace").decode()
    lacking = frozenset(filter(str.isprintable, shown)) - _letters_of(families)
    if lacking:
        families = [*families, *_others()]
        lacking -= _letters_of(families)
    if lacking:
        _say()
    return "".join(_BOX if letter in lacking else letter for letter in shown), families


def _letters_of(families: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*map(_letters_of_one, families))


@lru_cache(maxsize=32)  # those of a font for Chinese take some MB
def _letters_of_one(family: str) -> frozenset[str]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(map(chr, get_font(findfont(FontProperties(family=[family]))).get_charmap()))


@cache
def _others() -> list[str]:
    from matplotlib.font_manager import fontManager

    return [family for family in _MANY_SCRIPTS if family in fontManager.get_font_names()]


@cache
def _say() -> None:
    warn_user(
        "Some letters are in no font that matplotlib knows: boxes are drawn. Install one that has them, such as Noto"
        " Sans CJK for Chinese, or name one in matplotlib's font.family."
    )
