"""One error tree, one message form."""

import pickle

import pytest
from any_text import any_text
from hypothesis import given
from hypothesis import strategies as st

from nearfar import errors
from nearfar.errors import (
    DataError,
    FileFormatError,
    InputError,
    MissingDependencyError,
    NearfarError,
    NearfarWarning,
    NumericalError,
    UnknownIdError,
)

EXAMPLES = [
    InputError("EDRep", "n_components", "an integer >= 1", 0, "Choose a number of columns."),
    InputError("EDRep", "far", "one of 'exact', 'noise'", "exat"),
    DataError("Relation.from_edges", "weight", "finite", "NaN in line 3", "Remove the line."),
    UnknownIdError("Embedding", ["anna", ("b", 1)], "See emb.ids."),
    FileFormatError("Embedding.load: the file ends early"),
    MissingDependencyError("scatter", "matplotlib", "plot"),
    NumericalError("EDRep: the loss is not finite"),
]


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (InputError, (NearfarError, ValueError)),
        (DataError, (InputError,)),
        (UnknownIdError, (NearfarError, KeyError)),
        (FileFormatError, (NearfarError, ValueError)),
        (MissingDependencyError, (NearfarError, ImportError)),
        (NumericalError, (NearfarError, ArithmeticError)),
        (NearfarWarning, (UserWarning,)),
    ],
)
def test_each_error_is_also_the_builtin_that_one_would_catch(error, bases):
    assert all(issubclass(error, base) for base in bases)


def test_not_fitted_error_is_ours_and_that_of_scikit_learn():
    import sklearn.exceptions

    assert issubclass(errors.NotFittedError, NearfarError)
    assert issubclass(errors.NotFittedError, sklearn.exceptions.NotFittedError)


def test_module_exports_the_whole_tree():
    public = {n for n, one in vars(errors).items() if isinstance(one, type) and one.__module__ == "nearfar.errors"}
    assert public | {"NotFittedError"} == set(errors.__all__)
    with pytest.raises(AttributeError, match="NoSuchError"):
        errors.NoSuchError  # noqa: B018


def test_the_one_message_form():
    assert str(EXAMPLES[0]) == "EDRep: n_components must be an integer >= 1; got 0. Choose a number of columns."
    assert str(EXAMPLES[1]) == "EDRep: far must be one of 'exact', 'noise'; got exat. Did you mean 'exact'?"
    assert str(EXAMPLES[3]) == "Embedding: id must be one that it holds; got 'anna', ('b', 1). See emb.ids."
    assert str(EXAMPLES[5]) == "scatter needs matplotlib, which is not installed. Run: pip install 'nearfar[plot]'"


def test_many_unknown_ids_are_cut_to_five():
    message = str(UnknownIdError("Embedding", list(range(20, 29))))
    assert message.endswith("got 20, 21, 22, 23, 24 and 4 more.")


@given(st.one_of(any_text(), st.binary(), st.lists(st.floats())))
def test_what_was_got_is_shown_on_one_line_and_cut(got):
    message = str(InputError("f", "x", "small", got))
    assert len(message.splitlines()) == 1
    assert len(message) <= 230


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_errors_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
