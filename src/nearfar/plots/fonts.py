"""Text of the user in pictures: as it is written, in one good font, and in fonts of the system for other scripts.

The font is Source Sans, from the system or from the package font-source-sans-pro, unless the user has chosen one. A
letter that it lacks comes from that of matplotlib, then from fonts of the system.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar._core.warn import warn_user

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

_OWN = ("Source Sans Pro", "Source Sans 3")
_PACKAGE = "font_source_sans_pro"
_WEIGHTS = ("Regular", "Bold")  # of its files
_UNCHOSEN = "DejaVu Sans"  # the font where the user has chosen none
# Fonts of the systems that have many scripts, asked before all others.
_LIKELY = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei"),
    *("SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Malgun Gothic", "Yu Gothic"),
    *("Apple SD Gothic Neo", "Arial Unicode MS", "Nirmala UI", "Noto Sans", "Segoe UI", "FreeSans"),
)
_BOX = "\u25a1"  # for a letter that no font has
_said: set[str] = set()  # letters of which a warning has told
_nowhere: set[str] = set()  # letters that no font has


def whole_letters(text: str) -> str:
    """Return a text with ? for each half of a character, which is in no font."""
    return text.encode("utf-8", "replace").decode()


def as_written(text: Text) -> Text:
    """Return a text of a picture that comes from the user, in which $ is no sign of mathematics.

    Letters that the font lacks come from fonts that have them. What none has is a box, and a warning says so once.
    """
    text.set_parse_math(False)
    shown = whole_letters(text.get_text())
    families, lacking = _families_for(shown, text.get_fontproperties())
    text.set_fontfamily(families)
    if lacking:
        shown = "".join(_BOX if letter in lacking else letter for letter in shown)
        _say(lacking)
    text.set_text(shown)
    return text


def font_for(shown: str, size: float) -> FontProperties:
    """Return the font, of this size in points, in which :func:`as_written` writes."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=_families_for(shown, FontProperties())[0], size=size)


def say_what_is_lacking(texts: Iterable[str]) -> None:
    """Warn once of all letters of some texts that no font has."""
    from matplotlib.font_manager import FontProperties

    usual = FontProperties()
    _say(frozenset().union(*(_families_for(shown, usual)[1] for shown in texts)))


def _families_for(shown: str, usual: FontProperties) -> tuple[list[str], frozenset[str]]:
    """Return the families of fonts that have the letters, each for what those before lack, and what none has."""
    from matplotlib.font_manager import findfont, get_font

    families = usual.get_family()
    unchosen = get_font(findfont(usual)).family_name == _UNCHOSEN
    families = [*_own(), *families] if unchosen else list(families)
    printed = frozenset(filter(str.isprintable, shown))
    lacking = printed - _nowhere
    for family in families:
        lacking -= _letters_of(findfont(_with_family(usual, family)))
    while lacking:
        found = _best_for(lacking)
        if found is None:
            _nowhere.update(lacking)
            break
        file, family = found
        families.append(family)
        lacking -= _letters_of(file)
    return families, printed & _nowhere


def _with_family(usual: FontProperties, family: str) -> FontProperties:
    font = usual.copy()
    font.set_family(family)
    return font


@cache
def _own() -> list[str]:
    """Return the family of the font that is ours: of the system, or of the package that brings it."""
    from matplotlib.font_manager import fontManager

    for family in _OWN:
        if any(font.name == family for font in fontManager.ttflist):
            return [family]
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return []
    for weight in _WEIGHTS:
        fontManager.addfont(Path(package.origin).parent / "files" / f"SourceSansPro-{weight}.ttf")
    return [_OWN[0]]


def _best_for(letters: frozenset[str]) -> tuple[str, str] | None:
    """Return the font that has most of some letters, its file and its family; None if none has any."""
    best, most = None, 0
    for file, family in _others():
        count = len(letters & _letters_of(file))
        if count > most:
            best, most = (file, family), count
        if most == len(letters):
            break
    return best


@cache
def _others() -> list[tuple[str, str]]:
    """Return the fonts of the system, file and family, those that have many scripts first."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    for file in set(findSystemFonts()).difference(map(str, (font.fname for font in fontManager.ttflist))):
        with suppress(Exception):  # installed since matplotlib last looked; of what it cannot read it keeps nothing
            fontManager.addfont(file)
    rank = {name: number for number, name in enumerate(_LIKELY)}
    files = {(font.fname, font.name) for font in fontManager.ttflist if "Last Resort" not in font.name}
    return sorted(files, key=lambda font: (rank.get(font[1], len(rank)), str(font[0]), font[1]))


def _say(lacking: frozenset[str]) -> None:
    if not lacking <= _said:
        _said.update(lacking)
        some, advice = "".join(sorted(lacking)[:8]), "Install one that has, such as Noto Sans CJK for Chinese."
        warn_user(f"No font here has {some!r}: boxes are drawn. {advice}")


@lru_cache(maxsize=32)  # those of a font for Chinese take some MB
def _letters_of(file: str) -> frozenset[str]:
    from matplotlib.font_manager import get_font

    with suppress(RuntimeError, OSError):  # fonts of pictures, which matplotlib does not read
        return frozenset(map(chr, get_font(file).get_charmap()))
    return frozenset()
