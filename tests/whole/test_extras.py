"""What an optional package brings is asked for before any work, and the answer names the extra that has it."""

import ast
import re
import sys
import tomllib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sklearn
from quick import often

import nearfar as nf
from nearfar.cli import main
from nearfar.embedding.files import FORMATS
from nearfar.engines import NEEDS
from nearfar.errors import MissingDependencyError

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
CALLED = {"faiss": "faiss-cpu"}
# A package that another one of the extra needs.
BROUGHT = {"PIL": "matplotlib", "fsspec": "dask", "h5py": "anndata", "anndata": "scanpy"}


def packages(extra):
    found = set()
    for requirement in EXTRAS[extra]:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement).groups()
        found |= set().union(*map(packages, inner.split(","))) if name == "nearfar" else {name.lower()}
    return found


def required():
    """Yield (where, module, extra) of every call that says them."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text("utf-8")
        for call in re.findall(r'(?<!def )\brequire\((?:"[^"]*"|[^()"])*\)', text):
            args = ast.parse(call, mode="eval").body.args
            if len(args) == 3 and isinstance(args[2], ast.Constant):
                yield f"{path.name}: {call}", getattr(args[1], "value", None), args[2].value


def test_each_extra_that_is_named_holds_the_package():
    asked = [*required(), *((name, *kind.requires) for name, kind in FORMATS.items() if kind.requires)]
    asked += [(engine, *needs) for engine, needs in NEEDS.items()]
    asked += [("frames", library, library) for library in ("pandas", "polars")]
    assert len(asked) > 25
    for where, module, extra in asked:
        assert extra in EXTRAS, where
        if module is not None:
            name = module.partition(".")[0]
            assert CALLED.get(name, name) in packages(extra) or BROUGHT.get(name) in packages(extra), where


@pytest.fixture
def without():
    """Return a function that takes packages away, until before what closes figures looks for them."""
    patch = pytest.MonkeyPatch()

    def take(*names):
        for name in names:
            loaded = [module for module in sys.modules if module == name or module.startswith(name + ".")]
            for module in {*loaded, name}:
                patch.setitem(sys.modules, module, None)

    yield take
    patch.undo()


# The file is not there: a command that has begun to work says that.
@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("map nowhere.npz --plot out.png", "matplotlib", "plot"),
        ("map nowhere.npz -o out.parquet", "pyarrow", "parquet"),
        ("map nowhere.npz -o out.html --engine torch", "torch", "torch"),
        ("embed nowhere.csv -o out.parquet", "pyarrow", "parquet"),
        ("embed nowhere.csv -o out.h5ad", "anndata", "anndata"),
        ("embed nowhere.csv -o out.npz --engine torch", "torch", "torch"),
        ("embed nowhere.csv -o out.npz --engine dask", "distributed", "cluster"),
        ("words train nowhere.txt -o out.parquet", "pyarrow", "parquet"),
        ("words train nowhere.txt -o out.npz --engine torch", "torch", "torch"),
        ("convert nowhere.npz out.parquet", "pyarrow", "parquet"),
        ("convert nowhere.npz out.h5ad", "anndata", "anndata"),
        ("compare nowhere.npz nowhere.vec -o out.parquet", "pyarrow", "parquet"),
    ],
)
def test_a_command_asks_before_it_works(command, package, extra, without, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    without(package)
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert f"needs {package}, which is not installed. Run: pip install 'nearfar[{extra}]'" in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


class WorkedError(AssertionError):
    pass


MADE = product([lambda: nf.TSNE(perplexity=3), nf.MDS, lambda: nf.EDRep(2)], ("pandas", "polars"))


@pytest.mark.parametrize(("make", "library"), often(MADE, lambda make, used: make is nf.MDS))
def test_frames_are_asked_for_before_a_fit(library, make, without, monkeypatch):
    X, estimator = np.random.default_rng(0).normal(size=(20, 3)), make()
    fitted = make().set_params(random_state=0).fit(np.abs(X @ X.T)) if library == "pandas" else None
    without(library)

    def work(*_arguments, **_options):
        raise WorkedError

    monkeypatch.setattr(type(estimator), "fit", work)
    told = rf"needs {library}, which is not installed. Run: pip install 'nearfar\[{library}\]'"
    with pytest.raises(MissingDependencyError, match=told):
        estimator.set_output(transform=library)
    with sklearn.config_context(transform_output=library):
        with pytest.raises(MissingDependencyError, match=told):
            make().fit_transform(X)
        if fitted is not None and hasattr(fitted, "transform"):
            with pytest.raises(MissingDependencyError, match=told):
                fitted.transform(np.abs(X @ X.T))
    with pytest.raises(WorkedError):
        make().fit_transform(X)


@pytest.mark.parametrize(
    ("call", "package", "extra"),
    [
        (lambda emb: emb.to_frame("pandas"), "pandas", "pandas"),
        (lambda emb: emb.to_frame("polars"), "polars", "polars"),
        (lambda emb: emb.to_frame("pyarrow"), "pyarrow", "parquet"),
        (lambda emb: emb.to_gensim(), "gensim", "gensim"),
        (lambda emb: emb.save("out.parquet"), "pyarrow", "parquet"),
        (lambda emb: emb.index("usearch"), "usearch", "index"),
        (lambda emb: emb.index("faiss"), "faiss", "index"),
        (lambda emb: nf.plots.scatter(emb), "matplotlib", "plot"),
        (lambda emb: nf.plots.small_multiples({"a": emb}), "matplotlib", "plot"),
        (lambda emb: nf.plots.rnx_curves({}), "matplotlib", "plot"),
        (lambda emb: nf.TSNE(engine="torch", perplexity=2).fit(emb.vectors), "torch", "torch"),
        (lambda emb: nf.EDRep(2, engine="dask").fit(np.ones((9, 9))), "distributed", "cluster"),
        (lambda emb: nf.log_normalizers(emb.vectors, device="cpu"), "torch", "torch"),
    ],
)
def test_python_names_the_extra(call, package, extra, without, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(9, 2)), list("abcdefghi"))
    without(package)
    with pytest.raises(MissingDependencyError, match=rf"needs {package}, .*pip install 'nearfar\[{extra}\]'"):
        call(emb)
    assert not list(tmp_path.iterdir())


def test_what_needs_no_extra_works_without_any(without):
    without("matplotlib", "pandas", "polars", "pyarrow", "torch", "faiss", "usearch", "h5py", "gensim", "zstandard")
    X = np.random.default_rng(0).normal(size=(20, 3))
    emb = nf.Embedding(nf.TSNE(perplexity=3, max_iter=5, random_state=0).fit_transform(X))
    assert emb.search(emb.vectors, topn=2)[0].shape == (20, 2)
