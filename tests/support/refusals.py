"""Tests of bad input that are alike: a table of what is given and of what the error says."""

import pytest

from nearfar.errors import InputError


def refusals(call, rows, said="{}", error=InputError):
    """Return a test for each row ``(*given, words)``: ``call(*given)`` is refused with these words, put in ``said``."""

    @pytest.mark.parametrize("row", rows, ids=[str(row[-1]) for row in rows])
    def test(row):
        *given, words = row
        with pytest.raises(error, match=said.replace("{}", str(words))):
            call(*given)

    return test
