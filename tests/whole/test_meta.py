"""Tests about the tests and the documentation: nothing public without a test, a page, an example and a source."""

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import registry
from scripts import loaded

import nearfar
from nearfar import contracts, engines
from nearfar.base import RelationEmbedder
from nearfar.contracts import FarField
from nearfar.far.registry import FarPart

pytest.importorskip("torch")  # the reference has all public names, those of `nearfar.nn` too

ROOT = Path(__file__).resolve().parents[2]


api_pages, hops = loaded(ROOT / "docs" / "api_pages.py"), loaded(ROOT / "lab" / "hops.py")
PAGES = {f"{module}.{name}": value for module, objects in api_pages.pages().items() for name, value in objects.items()}
SOURCELESS = {
    # Records and glue: they implement no method of anybody.
    "nearfar.Communities": "a record",
    "nearfar.Corpus": "reads and counts",
    "nearfar.Embedding": "a container",
    "nearfar.EncodedCorpus": "a container",
    "nearfar.Relation": "a container; its methods name their sources",
    "nearfar.Vocabulary": "a container",
    "nearfar.warmup": "compiles",
    "nearfar.reading.Points": "a record",
    "nearfar.datasets.Graph": "a record",
    "nearfar.datasets.PlantedSenses": "a record",
    "nearfar.reading.advice.Advice": "a record",
    "nearfar.evaluate.Alignment": "a record",
    "nearfar.evaluate.AnchorPurity": "a record",
    "nearfar.evaluate.CommunityScores": "a record",
    "nearfar.evaluate.LinkPrediction": "a record",
    "nearfar.evaluate.Neighborhoods": "a record",
    "nearfar.evaluate.NodeClassification": "a record",
    "nearfar.evaluate.PhraseSimilarity": "a record",
    "nearfar.evaluate.Ambiguity": "a record",
    "nearfar.evaluate.Ranking": "a record",
    "nearfar.evaluate.Selection": "a record",
    "nearfar.evaluate.SenseInduction": "a record",
    "nearfar.evaluate.SpreadingReconstruction": "a record",
    "nearfar.evaluate.MapStability": "a record",
    "nearfar.evaluate.Stability": "a record",
    "nearfar.evaluate.WordAnalogies": "a record",
    "nearfar.evaluate.WordSimilarity": "a record",
    "nearfar.evaluate.giant_component": "a definition",
    "nearfar.divergences.Accuracy": "a record",
    "nearfar.divergences.Divergence": "a base",
    "nearfar.divergences.Formulas": "a record",
    "nearfar.far.Potential": "a record",
    "nearfar.far.Term": "a record",
    "nearfar.far.far_field": "finds a far field by its name",
    "nearfar.far.register": "gives a far field a name",
    "nearfar.far.register_field": "gives a field of maps a name",
    "nearfar.nn.MutualInformation": "a record",
    "nearfar.nn.SelfNormalization": "a record",
    "nearfar.plots.scatter": "a picture",
}
INTERNAL_ROOMS = {
    "nearfar.scanpy": "its functions are in nearfar.scanpy.tl",
    "nearfar.text": "all its names are in nearfar",
}
METHOD_MODULES = (
    "nearfar.",
    "nearfar.relations.",
    "nearfar.far.",
    "nearfar.evaluate.",
    "nearfar.datasets.",
    "nearfar.density.hyponymy.",
    "nearfar.nn.",
)
METHODS = [
    name for name in PAGES if name.rpartition(".")[0] + "." in METHOD_MODULES and not name.startswith("nearfar.errors")
]


def docstring(value: object) -> str:
    return inspect.getdoc(value) or ""


def has_source(value: object) -> bool:
    return bool(re.search(r"^\s*(Source:|Sources:|References\n)", docstring(value), re.MULTILINE))


def is_record(value: object) -> bool:
    """Whether it only carries results: a data class that has no parameters, as parts and estimators have."""
    return hasattr(value, "__dataclass_fields__") and not hasattr(value, "get_params")


def test_every_room_with_public_names_is_in_the_reference():
    rooms = [f"nearfar.{m.name}" for m in pkgutil.iter_modules(nearfar.__path__) if m.ispkg]
    with_names = {room for room in rooms if hasattr(importlib.import_module(room), "__all__")}
    assert with_names - set(INTERNAL_ROOMS) <= set(api_pages.MODULES)
    for module in api_pages.MODULES:
        assert docstring(importlib.import_module(module)), f"{module} has no docstring"


@pytest.mark.parametrize("module", api_pages.MODULES)
def test_every_public_name_has_a_page(module):
    on_pages = {id(value) for value in PAGES.values()}
    missing = [name for name, value in api_pages.public_objects(module).items() if id(value) not in on_pages]
    assert missing == []


def test_the_tests_lie_as_the_source_does():
    """Beside those of packages: of the pages, of the lab, of the whole; what they share, and old files."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    packages = {path.parent.name for path in (ROOT / "src" / "nearfar").glob("*/__init__.py")}
    assert folders - packages == {"docs", "files", "lab", "support", "whole"}
    assert not list((ROOT / "tests").glob("*.py"))
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]  # by which pytest imports them
    assert sorted({*names}) == sorted(names), "two test files of one name: call them by room, test_ROOM_refusals.py"


@functools.cache
def words_of_the_tests() -> set[str]:
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if path.name not in ("test_meta.py", "test_namespace.py")
    ]
    return {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}


def test_every_public_name_is_named_in_a_test():
    named = words_of_the_tests()
    assert [name for name in PAGES if name.rpartition(".")[2] not in named and not is_record(PAGES[name])] == []


def test_every_public_name_has_a_first_line_of_one_sentence():
    first = {name: docstring(value).partition("\n")[0] for name, value in PAGES.items()}
    assert [name for name, line in first.items() if len(line) > 120 or not line.endswith(".")] == []


def test_every_public_name_is_documented_with_all_its_parameters():
    raised = {value for value in PAGES.values() if isinstance(value, type) and issubclass(value, BaseException)}
    asked = {n: one for n, one in PAGES.items() if one not in raised and not getattr(one, "_is_protocol", False)}
    given = {name: set(inspect.signature(value).parameters) - {"args", "kwargs"} for name, value in asked.items()}
    missing = {name: told - set(re.findall(r"\w+", docstring(PAGES[name]))) for name, told in given.items()}
    assert {name: words for name, words in missing.items() if words} == {}


def test_every_method_names_its_source():
    """By a section of references, or a line that begins with the word."""
    assert [name for name in METHODS if not has_source(PAGES[name]) and name not in SOURCELESS] == []


def test_nothing_is_excused_without_need():
    assert set(SOURCELESS) <= set(PAGES)
    assert [name for name in SOURCELESS if has_source(PAGES[name])] == []


def test_every_class_and_function_shows_an_example():
    assert [name for name in METHODS if not is_record(PAGES[name]) and ">>>" not in docstring(PAGES[name])] == []


def subclasses(base: type) -> set[type]:
    return {value for value in PAGES.values() if isinstance(value, type) and issubclass(value, base)}


def test_every_estimator_is_in_the_contract_suite_and_in_a_guide():
    estimators = subclasses(RelationEmbedder)
    assert estimators
    # The suite fits relations; MDS, which takes rows or distances, is held to the same in its own tests.
    assert estimators - {nearfar.MDS} <= {case.cls for case in registry.ESTIMATORS}  # which has one from outside, too
    guides = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "guide").glob("*.md"))
    for cls in estimators:
        assert f"nf.{cls.__name__}(" in guides, f"no guide shows {cls.__name__}"


def test_every_far_field_is_in_the_contract_suite():
    fields = subclasses(FarPart)
    assert fields
    assert fields == {type(case.make()) for case in registry.FAR_FIELDS}
    assert all(isinstance(case.make(), FarField) for case in registry.FAR_FIELDS)


# -- what public signatures say ---------------------------------------------------------------------------------------

# Where no type can be said, and why.
OF_ANY_TYPE = {
    "nearfar.contracts.Place.near": "P is an operator, which a contract cannot import",
    "nearfar.contracts.Place.pairs": "formula and pattern are as the place takes them",
    "nearfar.contracts.Place.each": "formula is as the place takes it",
    "nearfar.contracts.Field.place": "a field may ask for more of a kernel than the contract",
    "nearfar.callbacks.Progress.__init__": "each solver has a state of its own",
    "nearfar.far.registry.FarPart.prepared": "what a far field keeps of the others is its own",
    "nearfar.far.fields.FieldPart.work": "what a field keeps between two calls is its own",
    "nearfar.scanpy.tl.edrep": "passed on, to be checked there",
    "nearfar.scanpy.tl.ingest": "passed on, to be checked there",
    "nearfar.scanpy.tl.tsne": "passed on, to be checked there",
    "nearfar.scanpy.tl.umap": "passed on, to be checked there",
    "nearfar.tables.anchors.AnchorEmbedding.state_dict": "as torch has it",
}
ALIASES = {"nearfar.contracts.Rows": "an array, a tensor, parts on workers: as many types as there are places"}


def functions_of(name: str, value: object) -> dict[str, object]:
    """Return a public function, or the public methods and properties of a class that this library wrote."""
    if not inspect.isclass(value):
        return {name: value}
    found = {}
    for kind in (kind for kind in value.__mro__ if kind.__module__.startswith("nearfar")):
        for inner, given in vars(kind).items():
            member = getattr(given, "fget", None) or getattr(given, "func", None) or getattr(given, "__func__", given)
            if inspect.isfunction(member) and (not inner.startswith("_") or inner in ("__init__", "__call__")):
                found[f"{kind.__module__}.{kind.__qualname__}.{inner}"] = inspect.unwrap(member)
    return found


def test_public_signatures_say_types():
    functions = {}
    for name, value in PAGES.items():
        functions |= functions_of(name, value)
    assert len(functions) > 500
    unsaid = {
        name
        for name, function in functions.items()
        if any(re.search(r"\bAny\b", str(said)) for said in getattr(function, "__annotations__", {}).values())
    }
    assert unsaid == set(OF_ANY_TYPE)


def test_no_name_stands_for_any():
    found = set()
    for module, path in MODULES.items():
        text = path.read_text("utf-8")
        for node in ast.parse(text).body if " = Any" in text else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "Any":
                found.add(f"{module}.{node.targets[0].id}")
    assert found == set(ALIASES)


# -- how the modules hang together ----------------------------------------------------------------------------------

SOURCE = ROOT / "src"
MODULES = hops.modules_of(SOURCE)


def family(module: str) -> str:
    """``maps`` for ``nearfar.maps.solver``; a module of the package's own folder is a family by itself."""
    return module.removeprefix("nearfar.").partition(".")[0]


def test_no_two_modules_import_each_other():
    inner = {name: path for name, path in MODULES.items() if name != "nearfar"}  # which imports lazily, by name
    graph = {name: hops.imports_of(path, inner) - {name} for name, path in inner.items()}
    assert hops.circles(graph) == []


def test_a_family_uses_no_private_name_of_another():
    found = [
        f"{module} imports {node.module}.{alias.name}"
        for module, path in MODULES.items()
        for node in hops.outline(path)[1]
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nearfar.")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__") and family(node.module) != family(module)
    ]
    assert found == []


def test_each_module_says_what_it_is():
    silent = [name for name, path in MODULES.items() if not hops.outline(path)[0]]
    assert silent == []


# -- engines are named in one place -----------------------------------------------------------------------------------

ENGINE_NAMES = {"threads", "plain", "dask", "cuda", "torch"}
NOT_AN_ENGINE = {("nearfar.contrastive.mutual_information", "cuda"): "where a tensor is, which the user has put there"}
OUTSIDE = {name: path for name, path in MODULES.items() if not name.startswith("nearfar.engines")}
ASKS_FOR_A_PACKAGE = ("require", "checks.require", "find_spec", "sys.modules.get")  # of which "torch" is one


def called(node: ast.expr) -> str:
    """Return a name with its dots, as `ast.unparse` does in twenty times the time."""
    if isinstance(node, ast.Attribute):
        return f"{called(node.value)}.{node.attr}"
    return getattr(node, "id", "")


@functools.cache
def engines_named(module: str) -> frozenset[str]:
    """Return the engines that a module imports, and its strings that name one; docstrings may."""
    imported = {name for name in hops.imports_of(MODULES[module], MODULES) if name.startswith("nearfar.engines.")}
    text = MODULES[module].read_text("utf-8")
    may_say = re.search(rf"nearfar\.engines|(['\"])({'|'.join(ENGINE_NAMES)})\1", text)
    nodes, strings, passed = [*ast.walk(ast.parse(text))] if may_say else [], {}, set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings[id(node)] = node.value
        elif isinstance(node, ast.Expr):
            passed.add(id(node.value))
        elif isinstance(node, ast.Call) and node.args and called(node.func) in ASKS_FOR_A_PACKAGE:
            passed |= {id(value) for value in node.args if getattr(value, "value", None) == "torch"}
    said = {text for key, text in strings.items() if key not in passed}
    named = {text for text in said if text in ENGINE_NAMES or "nearfar.engines" in text}
    return frozenset(imported | named)


def abilities_asked(function: str) -> set[str]:
    """Return the abilities that the library asks of ``on_device`` or ``on_cluster``."""
    asked = "".join(path.read_text("utf-8") for path in OUTSIDE.values())
    return set(re.findall(rf'\b{function}\("([^"]+)"\)', asked))


def test_nothing_outside_of_engines_names_one():
    found = {
        name: named
        for name in OUTSIDE
        if (named := {text for text in engines_named(name) if (name, text) not in NOT_AN_ENGINE})
    }
    assert found == {}


def test_no_module_may_name_an_engine_without_need():
    assert [(name, text) for name, text in NOT_AN_ENGINE if text not in engines_named(name)] == []


@pytest.mark.parametrize(("function", "table"), [("on_device", "_DEVICE"), ("on_cluster", "_CLUSTER")])
def test_what_an_engine_can_do_is_there_and_asked_for(function, table):
    abilities = set(getattr(engines, table))
    assert all(callable(getattr(engines, function)(ability)) for ability in abilities)
    assert abilities_asked(function) == abilities


def test_the_learners_of_word_models_are_there_and_have_one_signature():
    expected = inspect.signature(contracts.Learner.run_epoch)
    for name in engines.LEARNERS.values():
        learner = engines.found(name)
        assert list(inspect.signature(learner).parameters) == ["training"]
        assert issubclass(learner, contracts.Learner)
        assert list(inspect.signature(learner.run_epoch).parameters) == list(expected.parameters)


def test_the_forms_of_parts_are_there():
    for name in engines._FORMS:
        module, _, part = name.rpartition(".")
        cls = getattr(importlib.import_module(module), part)
        assert (cls.__module__, cls.__qualname__) == (module, part)  # else it is never found
        assert callable(engines.form_of_class(cls))


def test_every_extra_is_used():
    # An extra is asked for by the code that needs it, or installed by a target of the Makefile.
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    makefile = (ROOT / "Makefile").read_text()
    unused = [name for name in extras if f'"{name}")' not in code and f"$(STAMP)-{name}" not in makefile]
    assert unused == []
    assert not any("torch" in package for package in extras["demo"])
