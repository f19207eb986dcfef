"""What people get wrong costs nothing that was there before. What each room refuses stands in the table of its room."""

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import InputError, NearfarWarning

GOOD = "source,target,weight\nann,bob,1\nbob,cem,2\ncem,ann,1\ncem,dan,1\ndan,eve,3\n"


def test_clusters_of_one_member_and_equal_vectors():
    X = np.random.default_rng(0).normal(size=(7, 3))
    exact = nf.log_normalizers(X, method="exact")
    np.testing.assert_allclose(nf.log_normalizers(X, n_clusters=7, random_state=0), exact, rtol=1e-12)
    some = nf.log_normalizers(X, labels=[0, 0, 0, 0, 0, 1, 2])
    assert np.isfinite(some).all()
    assert not np.allclose(some, exact)
    n, equal = 40, np.full((40, 3), 0.5)
    np.testing.assert_allclose(nf.log_normalizers(equal), np.log(n) + 0.75, rtol=1e-12)
    with pytest.warns(NearfarWarning, match="1 clusters found where n_clusters is 3"):
        np.testing.assert_allclose(nf.log_normalizers(equal, n_clusters=3, random_state=0), np.log(n) + 0.75)
    assert [row for row, _ in nf.Embedding(equal).most_similar(5, topn=3)] == [0, 1, 2]
    with pytest.warns(NearfarWarning, match="only 1 distinct"):
        assert nf.evaluate.communities(equal, np.arange(n) % 2, random_state=0).nmi == 0


def test_a_fit_that_fails_leaves_the_one_before():
    def fail(progress):
        if progress.epoch == 2:
            raise RuntimeError("of the callback")

    rel = nf.Relation.from_edges([(k, (k + 1) % 6) for k in range(6)])
    est = nf.EDRep(2, n_epochs=3, random_state=0).fit(rel.random_walk(2))
    before = est.vectors_
    with pytest.raises(RuntimeError, match="of the callback"):
        est.set_params(callbacks=[fail], random_state=1).fit(rel)
    assert est.vectors_.equals(before)
    assert est.n_iter_ == 3


def test_what_is_wrong_is_said_before_a_map_is_drawn(rng, tmp_path, fails, monkeypatch):
    def drawn(*_args, **_options):
        raise AssertionError("a map was drawn")

    monkeypatch.setattr(nf.TSNE, "fit", drawn)
    emb = nf.Embedding(rng.normal(size=(9, 4)), list("abcdefghi"))
    emb.save(tmp_path / "e.npz")
    (tmp_path / "k.csv").write_text("id,g\n" + "".join(f"{key},1\n" for key in "abcdefghi"))
    for given in ({"color": "zz"}, {"n_neighbors": 0}, {"metadata": {"g": [1]}}):
        with pytest.raises(InputError, match=next(iter(given))):
            emb.map(**given)
    for more, said in (
        (["--metadata", f"{tmp_path}/no.csv"], "--metadata must be a CSV file that is there"),
        (["--metadata", f"{tmp_path}/k.csv", "--color", "h"], "--color must be one of 'g', 'missing neighbours'"),
    ):
        assert said in fails("map", f"{tmp_path}/e.npz", "-o", f"{tmp_path}/m.html", *more)


# What the command line says of each kind of fault: in a file, of a column, of a parameter, of an option.
COMMANDS = {
    "embed edges.csv -o old.npz --no-weight --weight 1": "exclude each other",
    "embed edges.csv -o old.npz --source who": "--source must be one of the columns: 'source', 'target'|'who'",
    "embed edges.csv -o old.npz --weight 7": "--weight must be an integer in [0, 2]; got 7",
    "embed edges.csv -o old.npz --no-header --source who": "pass --header if its first line does",
    "embed edges.csv -o old.npz --delimiter ::": "--delimiter must be one ASCII character|::",
    "embed edges.csv -o old.npz --n-components 6": "--n-components must be at most 5|got 6",
    "embed edges.csv -o old.npz --n-components two": "'--n-components'|'two' is not a valid integer",
    "embed edges.csv -o old.npz --learning-rate nan": "--learning-rate must be|got nan",
    "embed edges.csv -o old.npz --far away": "'--far'|'away'|'exact'",
    "embed edges.csv -o old.npz --perplexity 3": "--perplexity|Try: nearfar embed --help",
    "embed nan.csv -o old.npz": "every weight must be|got nan in line 2|'bob' -> 'cem'|--no-weight",
    "embed ragged.csv -o old.npz": "every line must be of 2 fields|got 1 on line 3|Pass --delimiter if|--comments if",
    "embed latin.csv -o old.npz": "text in UTF-8|line 1: b'a,\\xff|Pass it through iconv if",
    "embed nowhere.csv -o old.npz": "EDGES must be a file that exists|no such file",
    "info nowhere.npz": "no such file",
    "info cut.npz": "file must be|cut.npz",
    "similar cut.npz 0": "file must be|cut.npz",
    "convert cut.npz new.vec": "file must be|cut.npz",
    "convert old.npz x.dat": "one of the suffixes|'",
    "similar old.npz dan": "id must be one that it holds; got 'dan'|It holds 3 ids, such as 'ann', 'bob', 3.",
    "similar old.npz Ann": "Did you mean 'ann'?",
    "similar old.npz ann --negative dan": "got 'dan'",
    "similar old.npz ann --topn 0": "--topn must be an integer >= 1; got 0",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_so_in_a_line_and_writes_nothing(command, tmp_path, fails, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nf.Embedding(np.eye(3), ["ann", "bob", 3]).save("old.npz")
    files = {"edges": GOOD, "nan": "ann,bob,1\nbob,cem,nan\n", "ragged": "a,b\nb,c\nc\n", "latin": "a,\xff\n"}
    for name, content in files.items():
        (tmp_path / f"{name}.csv").write_text(content, "latin-1")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "old.npz").read_bytes()[:-3])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    said = fails(*command.split())
    assert [words for words in COMMANDS[command].split("|") if words not in said] == []
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
