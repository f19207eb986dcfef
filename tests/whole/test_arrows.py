"""Which room imports which: the core nothing of what stands around it, none in a circle, and the house is drawn so."""

from pathlib import Path

import pytest
from scripts import loaded

make_house = loaded(Path(__file__).parents[2] / "docs" / "make_house.py")


@pytest.fixture(scope="module")
def arrows():
    """Which rooms a room imports, and which those behind the doors of a module are."""
    return make_house.arrows()


@pytest.fixture
def below(arrows):
    return arrows[0]


@pytest.fixture
def doors(arrows):
    return arrows[1]


CORE = set(make_house.CORE)
FAMILIES = {"estimators", "maps", "words", "tables", "contrastive"}

# What functions of the core ask for when they are called, around it or by the package's public names.
OPEN = {
    "embedding.metadata": {"reading"},  # columns from a file of text
    "embedding.parts": {"density"},  # parts of words whose sums are factors of matrices
    "embedding.vectors": {"embedding.files", "nearfar", "reading"},  # formats of others; the page; columns of ids
    "estimators.transform": {"reading"},  # whether new rows are edges or a matrix
    "relations.matrix": {"reading", "text"},  # relations from files, graphs, contacts and texts
    "relations.neighbors": {"reading"},  # which columns of a frame are coordinates
}


@pytest.mark.parametrize("room", sorted(CORE))
def test_the_core_imports_nothing_of_what_stands_around_it(below, room):
    assert below[room] <= CORE


def test_functions_of_the_core_ask_there_where_it_is_said(doors):
    asked = {name: there - CORE for name, there in doors.items() if make_house.room_of(name) in CORE}
    assert {name: there for name, there in asked.items() if there} == OPEN


def test_no_rooms_stand_on_each_other(below):
    assert set(make_house.in_order(below)) == set(below)
    with pytest.raises(ValueError, match=r"in a circle: \['maps', 'relations'\]"):
        make_house.in_order({"relations": {"maps"}, "maps": {"relations"}, "errors": set()})


def test_an_engine_is_found_by_its_name(below):
    engines = {room for room in below if room.startswith("engines.")}
    assert {room: under & engines for room, under in below.items() if under & engines and room not in engines} == {}


def test_families_of_methods_do_not_know_each_other(below, doors):
    asked = {name: there for name, there in doors.items() if make_house.room_of(name) in FAMILIES}
    for family in FAMILIES:
        behind = set().union(*(there for name, there in asked.items() if make_house.room_of(name) == family))
        assert not (below[family] | behind) & (FAMILIES - {family})


def test_a_method_knows_formulas_alone(below):
    assert below["methods"] <= {"errors", "_core", "contracts", "kernels", "divergences"}


def test_imports_in_functions_are_doors_and_those_for_types_are_not_seen():
    source = """
import nearfar.maps.solver
from nearfar.errors import InputError
if TYPE_CHECKING:
    from nearfar.cli import main
class Fit:
    def fit(self):
        from nearfar.reading import files
        import nearfar
"""
    known = ("errors", "reading", "reading.files")
    found = list(make_house.imports(source, known))
    assert found == [("maps.solver", False), ("errors", False), ("reading.files", True), ("", True)]


def test_each_room_is_in_the_house(below):
    assert make_house.PAGE.read_text("utf-8") == make_house.page(), "run: python docs/make_house.py"
    assert set(below) >= CORE
