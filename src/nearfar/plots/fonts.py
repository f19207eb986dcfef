"""Text of the user in pictures: as it is written, in fonts of the system that have its letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from nearfar._core.warn import warn_user

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

# Fonts of the systems that have many scripts, asked before all others.
_LIKELY = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei"),
    *("SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Malgun Gothic", "Yu Gothic"),
    *("Apple SD Gothic Neo", "Arial Unicode MS", "Nirmala UI", "Noto Sans", "Segoe UI", "FreeSans"),
)
_BOX = "\u25a1"  # for a letter that no font has
_said: set[str] = set()  # letters of which a warning has told
_nowhere: set[str] = set()  # letters that no font has


def as_written(text: Text) -> Text:
    """Return a text of a picture that comes from the user, in which $ is no sign of mathematics.

    Where its font lacks letters, the font of the system that has most of them is taken. What that lacks is a box, and a
    warning says so once.
    """
    from matplotlib.font_manager import FontProperties

    text.set_parse_math(False)
    shown = text.get_text().encode("utf-8", "replace").decode()  # half a character is in no font
    file, lacking = _best_for(shown, text.get_fontproperties())
    if file is not None:
        text.set_fontproperties(FontProperties(fname=file, size=text.get_fontsize()))
    if lacking:
        shown = "".join(_BOX if letter in lacking else letter for letter in shown)
        _say(lacking)
    text.set_text(shown)
    return text


def say_what_is_lacking(texts: Iterable[str]) -> None:
    """Warn once of all letters of some texts that no font has."""
    from matplotlib.font_manager import FontProperties

    usual = FontProperties()
    _say(frozenset().union(*(_best_for(shown, usual)[1] for shown in texts)))


def _best_for(shown: str, usual: FontProperties) -> tuple[str | None, frozenset[str]]:
    """Return the file of the font that lacks fewest letters, if any is better than the usual one, and these letters."""
    from matplotlib.font_manager import findfont

    printed = frozenset(filter(str.isprintable, shown))
    needed = printed - _nowhere
    best, least = None, needed - _letters_of(findfont(usual))
    anywhere = needed - least
    for file in _files() if least else ():
        letters = _letters_of(file)
        anywhere |= needed & letters
        if len(needed - letters) < len(least):
            best, least = file, needed - letters
        if not least:
            break
    if least:  # all fonts have been asked
        _nowhere.update(needed - anywhere)
    return best, least | (printed & _nowhere)


def _say(lacking: frozenset[str]) -> None:
    if not lacking <= _said:
        _said.update(lacking)
        some, advice = "".join(sorted(lacking)[:8]), "Install one that has, such as Noto Sans CJK for Chinese."
        warn_user(f"No font here has {some!r}: boxes are drawn. {advice}")


def _files() -> Iterator[str]:
    """Yield the files of the fonts of the system, those that have many scripts first."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname: font.name for font in fontManager.ttflist if "Last Resort" not in font.name}
    rank = {name: number for number, name in enumerate(_LIKELY)}
    yield from sorted(known, key=lambda file: (rank.get(known[file], len(rank)), file))
    yield from sorted(set(findSystemFonts()).difference(known))  # installed since matplotlib last looked


@lru_cache(maxsize=32)  # those of a font for Chinese take some MB
def _letters_of(file: str) -> frozenset[str]:
    from matplotlib.font_manager import get_font

    with suppress(RuntimeError, OSError):  # fonts of pictures, which matplotlib does not read
        return frozenset(map(chr, get_font(file).get_charmap()))
    return frozenset()
