"""Texts of any characters, for properties."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""What UTF-8 holds. With ``codec="utf-8"``, as ``st.text`` asks by default, all of Unicode is encoded first: 2 s."""


def any_text(**sizes):
    return st.text(CHARACTERS, **sizes)
