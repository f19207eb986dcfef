"""Ids: what goes in comes out, and every id leads back to its row."""

import copy
import pickle
from datetime import date

import numpy as np
import pytest
from any_text import any_text
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals

from nearfar._core.ids import Ids
from nearfar.errors import InputError

INT64 = st.integers(-(2**63), 2**63 - 1)
HASHABLE = st.one_of(
    any_text(),
    st.integers(),
    st.binary(),
    st.tuples(st.integers(), any_text()),
    st.dates(),
    st.none(),
    st.frozensets(INT64),
)


@given(st.one_of(st.lists(INT64, unique=True), st.lists(HASHABLE, unique=True), st.lists(any_text(), unique=True)))
def test_every_id_stays_what_it_was_and_leads_back(keys):
    ids = Ids(keys)
    assert len(ids) == len(keys)
    assert list(ids) == ids.to_list() == keys
    assert [type(key) for key in ids] == [type(key) for key in keys]
    assert [ids.get(key) for key in keys] == list(range(len(keys)))
    assert ids.rows(keys).tolist() == list(range(len(keys)))
    assert all(key in ids for key in keys)
    assert ids == Ids(tuple(keys))


@given(st.lists(INT64, unique=True, min_size=1), INT64)
def test_an_integer_that_is_not_there_is_not_found(keys, stranger):
    found = Ids(keys).get(stranger)
    assert found == (keys.index(stranger) if stranger in keys else -1)


@given(st.data())
def test_rows_agrees_with_get_whatever_is_asked(data):
    few = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", "", 1.0, 0.5, None, True, (0, 1)]))
    keys = data.draw(st.one_of(st.lists(st.integers(0, 3), unique=True), st.lists(few, unique=True)))
    asked = data.draw(st.lists(few))
    rows = Ids(keys).rows(asked)
    assert rows.dtype == np.int64
    assert rows.tolist() == [Ids(keys).get(key) for key in asked]
    assert rows.tolist() == [keys.index(key) if key in keys else -1 for key in asked]


@given(st.lists(st.one_of(INT64, any_text()), unique=True, min_size=1), st.data())
def test_take_gives_the_ids_of_those_rows(keys, data):
    rows = data.draw(st.lists(st.integers(0, len(keys) - 1), unique=True))
    assert Ids(keys).take(rows).to_list() == [keys[row] for row in rows]


@given(st.lists(HASHABLE, unique=True))
def test_pickled_and_copied_ids_are_equal(keys):
    ids = Ids(keys)
    _ = [key in ids for key in keys]  # the look-up table made by this is not part of the pickle
    for again in (pickle.loads(pickle.dumps(ids)), copy.deepcopy(ids)):
        assert again == ids
        assert [again.get(key) for key in keys] == list(range(len(keys)))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_number_stands_for_a_range(n):
    for ids in (Ids(n), Ids(np.arange(n)), Ids(range(n)) if n else Ids(0)):
        assert ids.is_range
        assert ids.is_integer
        assert ids.to_list() == list(range(n))
        assert ids.get(n) == -1
        assert ids.get(-1) == -1


def test_consecutive_integers_in_another_order_are_no_range():
    ids = Ids([1, 0, 2])
    assert not ids.is_range
    assert ids.rows([0, 1, 2, 3]).tolist() == [1, 0, 2, -1]


def test_numpy_scalars_become_python_ones():
    assert [type(key) for key in Ids(np.array([5, 3], dtype=np.uint8))] == [int, int]
    assert [type(key) for key in Ids(np.array(["b", "a"]))] == [str, str]
    assert Ids([np.int32(4), 9]).to_list() == [4, 9]


def test_equal_numbers_are_the_same_id_as_in_a_dictionary():
    ids = Ids([3, 1, 2])
    assert ids.get(1.0) == ids.get(np.int64(1)) == ids.get(True) == 1
    assert ids.get(1.5) == ids.get("1") == ids.get(None) == ids.get([1]) == -1


@pytest.mark.parametrize("key", [float("nan"), float("inf"), -float("inf"), 2**63, 2**64, -(2**63) - 1, 10**30])
@pytest.mark.parametrize("ids", [Ids(4), Ids([-1, 7, 3]), Ids(["a", "b"])], ids=["range", "integers", "strings"])
def test_numbers_beyond_int64_are_not_found(ids, key):
    assert ids.get(key) == -1
    assert key not in ids
    assert ids.rows([key]).tolist() == [-1]


def test_unsigned_integers_do_not_wrap_round():
    assert Ids([-1, 4]).rows(np.array([2**64 - 1, 4], dtype=np.uint64)).tolist() == [-1, 1]


def test_pairs_are_ids_like_others():
    assert Ids([3, 4]).rows([(3, 4), (4, 3)]).tolist() == [-1, -1]
    ids = Ids([(3, "a"), (4, "b")])
    assert ids.rows([(4, "b"), (3, "b")]).tolist() == [1, -1]


def test_integers_larger_than_64_bits_are_kept():
    keys = [2**70, 5, -(2**80)]
    assert Ids(keys).to_list() == keys
    assert Ids(np.array([2**63, 5], dtype=np.uint64)).to_list() == [2**63, 5]


def test_rows_are_counted_from_both_ends_and_bounded():
    ids = Ids(["x", "y", "z"])
    assert (ids[0], ids[-1], ids[1:]) == ("x", "z", ["y", "z"])
    for row in (3, -4):
        with pytest.raises(IndexError, match="of 3 ids"):
            ids[row]


test_an_id_that_occurs_twice_is_refused_by_name = refusals(
    lambda keys: Ids(keys, owner="Table", name="names"),
    [([4, 8, 4], "4"), (["a", "b", "b"], "'b'"), ([1, 1.0], "1"), ([date(2020, 1, 2)] * 2, "date")],
    r"Table: names must be distinct; got .*{}.* more than once",
)


def test_an_id_that_cannot_be_hashed_is_refused():
    with pytest.raises(InputError, match="ids must be hashable"):
        Ids([["a"], ["b"]])


def test_a_negative_number_of_ids_is_refused():
    with pytest.raises(InputError, match=r"ids must be .*>= 0; got -1"):
        Ids(-1)


@pytest.mark.parametrize("ids", [Ids([9, 4]), pickle.loads(pickle.dumps(Ids([9, 4]))), Ids(Ids([9, 4]))])
def test_ids_cannot_be_changed_through_their_array(ids):
    with pytest.raises(ValueError, match="read-only"):
        ids.to_numpy()[0] = 5


def test_the_callers_array_stays_writable_and_apart():
    array = np.array([5, 2, 9])
    ids = Ids(array)
    array[0] = 7
    assert ids.to_list() == [5, 2, 9]


def test_equality_looks_at_the_ids_alone():
    assert Ids(3) == Ids([0, 1, 2])
    assert Ids([0, 2, 1]) != Ids(3)
    assert Ids(["a"]) != Ids(["b"])
    assert Ids([1, 2]) != Ids(["1", "2"])
    assert Ids(2).__eq__([0, 1]) is NotImplemented


def test_repr_shows_the_first_and_the_number():
    assert repr(Ids(["a", "b"])) == "Ids(['a', 'b'], n=2)"
    assert repr(Ids(1000)) == "Ids([0, 1, 2, ...], n=1000)"


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | any_text(), unique=True))
def test_ids_known_to_be_distinct_are_the_same_without_the_check(listed):
    made = Ids(listed, distinct=True)
    assert made == Ids(listed)
    assert made.is_range == Ids(listed).is_range
    assert made.rows(listed).tolist() == list(range(len(listed)))
    backwards = made.take(np.arange(len(listed))[::-1])
    assert backwards.to_list() == listed[::-1]
