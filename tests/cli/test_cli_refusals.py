"""What the command line refuses: one line, exit code 2, and nothing written."""

import shlex

import numpy as np
import pytest

import nearfar as nf

# No file is there: a command that had begun to read says that.
BEFORE = [
    ("foo", "No such command 'foo'. Try: nearfar --help"),
    ("embed", "Missing argument 'EDGES'. Try: nearfar embed --help"),
    ("embed x.csv", "Missing option '-o' / '--output'"),
    ("info --foo", "No such option"),
    ("similar x.npz ann --topn x", "is not a valid integer"),
    ("embed x.csv -o nowhere/k.vec", "folder that exists"),
    ("embed x.csv -o k.pickle", "one of the suffixes"),
    ("embed x.csv -o folder.npz", "(a folder)"),
    ("embed x.csv -o k.vec --n-components 0", "--n-components must be"),
    ("embed x.csv -o k.vec --n-clusters 0", "--n-clusters must be"),
    ("embed x.csv -o k.vec --n-epochs -1", "--n-epochs must be"),
    ("embed x.csv -o k.vec --walk-length 0", "--walk-length must be"),
    ("embed x.csv -o k.vec --learning-rate 1.5", "--learning-rate must be"),
    ("embed x.csv -o k.vec --random-state -1", "--random-state must be"),
    ("embed x.csv -o k.vec --n-jobs 0", "--n-jobs must be"),
    ("embed x.csv -o k.vec --no-weight --weight times", "exclude each other"),
    ("embed x.csv -o k.vec --contacts --ppmi", "--ppmi and --contacts exclude each other."),
    ("embed x.csv -o k.vec --window 3", "--window needs --contacts."),
    ("embed x.csv -o k.npz --resume", "need --checkpoint FILE"),
    ("embed x.csv -o k.safetensors --checkpoint k.safetensors", "different files"),
    ("embed x.csv -o k.npz --checkpoint run.safetensors --checkpoint-every 0", "every must be an integer >= 1"),
    ("map x.npz", "Nothing to write"),
    ("map x.npz --plot map.jpeg", "a file name ending in .png"),
    ("map x.npz --plot map.png --n-components 1", "two dimensions"),
    ("map x.npz -o map.html --n-components 3", "two dimensions"),
    ("map x.npz -o map.xyz", "suffix"),
    ("map x.npz -o map.npz --method lle", "--method"),
    ("map x.npz -o map.npz --metadata x.csv", "--metadata and --color are for a page or a picture"),
    ("map x.npz --plot x.png --method mds --stability", "--stability is not for --method mds"),
    ("map x.npz -o m.npz --method mds --onto old.npz", "--onto is not for --method mds"),
    ("map x.npz -o m.npz --before old.csv", "--before is for --onto"),
    ("map x.npz -o m.npz --method mds --perplexity 5", "--perplexity is not for --method mds"),
    ("map x.npz -o m.npz --method mds --density-weight 1", "--density-weight is not for --method mds"),
    ("map x.npz -o m.npz --min-dist 0.3", "--min-dist is not for --method tsne"),
    ("embed x.csv -o k.npz --engine tpu", "--engine must be one of"),
    ("map x.csv -o k.npz --engine tpu", "--engine must be one of"),
    ("words train x.txt -o k.npz --engine tpu", "--engine must be one of"),
    (
        "embed x.csv -o k.npz --far noise --engine torch",
        "--far noise does not run on a device: leave out --engine torch.",
    ),
    ("map x.csv -o k.npz --method mds --engine dask", "--engine must be 'threads'; got 'dask'. Pairs are summed by"),
    ("words train x.txt -o k.npz --engine plain", "one of 'threads', 'torch', 'cuda'; got 'plain'. Compiled code is"),
    ("words train x.txt -o k.npz --engine dask", "one of 'threads', 'torch', 'cuda'; got 'dask'. A window reads what"),
    ("words train x.txt -o k.npz --model multisense --engine cuda", "--engine must be 'threads'; got 'cuda'. Which"),
    ("words train x.txt -o k.npz --optimizer adam --engine torch", "--optimizer adam runs on a device with --model"),
    ("map nowhere.vec -o m.npz", "nowhere.vec"),
    ("map nowhere.csv -o m.npz", "nowhere.csv"),
    ("map nowhere.parquet -o m.npz", "no such file"),
    ("compare x.npz y.npz --topn 0", "--topn must be"),
    ("convert x.vec nowhere/x.npz", "folder that exists"),
    ("convert x.vec x.pkl", "one of the suffixes"),
    ("convert x.vec x --to pickle", "--to must be one of"),
    ("convert x.vec x.npz --from pickle", "--from must be one of"),
    ("convert x.vec y.vec --quantize int8", "--quantize must be left out unless OUT is .safetensors"),
    ("compress x.npz -o y.npz --n-anchors 2 --nnz-per-row 1", "a .safetensors file, which keeps mixtures"),
    ("advise -", "not standard input"),
    ("communities x.csv -o nowhere/groups.csv", "folder that exists"),
    ("advise nowhere.csv", "nowhere.csv"),
    ("advise x.csv --kind distances", "--kind"),
    ("look x.csv --kind pairs", "--kind"),
    ("look x.csv -o a.png", ".html"),
    ("nowhere.csv", "a file or folder that exists"),
    ("words train x.txt -o out.xyz", "out.xyz"),
    ("words train x.txt -o out.npz --n-factors 3", "--n-factors is for --model word2dm."),
    ("words train x.txt -o out.npz --model word2dm --n-senses 3", "--n-senses is for --model multisense"),
    ("words train x.txt -o out.npz --model multisense --subwords", "--subwords is for --model skipgram and word2dm"),
    ("words train x.txt -o out.npz --model multisense --deterministic", "--deterministic is for --model skipgram and"),
    ("words train x.txt -o out.npz --resume", "--checkpoint-every and --resume need --checkpoint FILE."),
    ("words train x.txt -o out.npz --checkpoint out.npz", "must be different files"),
    (
        "words train x.txt -o out.npz --token-pattern '(a'",
        "--token-pattern must be a regular expression; got '(a': missing",
    ),
    ("words train x.txt -o out.npz --token-pattern a --tokenizer blanks", "exclude each other"),
    ("words evaluate x.npz", "Give at least one file by --similarity, --analogies or --phrases."),
]

TWO = "x,y\n1.5,2.5\n"
AFTER = [
    ("similar people.npz up --context", "'up'"),
    ("similar people.npz up --side context --context", "two-sided"),
    ("similar plain.npz a --context", "two-sided"),
    ("convert plain.npz y.npz --side context", "two-sided"),
    ("convert t.vec y.npz", "the first line 'not read", "not read\n"),
    ("embed t.csv -o x.npz --no-header --weight 2", "embed: every weight must be a number", "a,b,much\nb,c,little\n"),
    ("embed t.csv -o x.npz", "EDGES must be a table whose columns are the ends of edges; got points: numbers at dates. "
     "... If two columns are the ends, name them by --columns.",
     "day,mean\n2009-03-01,0.1\n2009-03-02,0.5\n"),
    ("embed t.csv -o x.npz --columns 1,2 --source 1", "--source must be left out", "1,a,b\n2,b,c\n"),
    ("embed t.csv -o x.npz --columns 1", "--columns must be two or three names", "1,a,b\n2,b,c\n"),
    ("embed t.csv -o x.npz --comments '#'", "--comments if the line is one", "% said once\na,b\n#b,a\n"),
    ("embed t.csv -o x.npz --no-header --bipartite --walk-length 2", "leave it out with --bipartite", "a,b\nc,d\n"),
    ("embed t.csv -o x.npz --no-header --bipartite --task communities", "task must be one for a relation of two kinds",
     "a,b\nc,d\n"),
    ("embed t.csv -o x.npz --no-header --bipartite --n-components 1 --temperature 0",
     "--temperature must be at least 0.001", "a,b\nc,d\n"),
    ("map plain.npz -o m.npz --perplexity 40", "--perplexity must be"),
    ("map plain.npz -o m.npz --max-iter 0", "--max-iter must be"),
    ("map plain.npz -o m.npz --metric distance", "--metric must be"),
    ("map plain.npz -o m.npz --labels species", "are for a table of numbers"),
    ("map plain.npz -o m.html --color stability", "--color must be one of"),
    ("map plain.npz -o m.npz --density-weight 1 --engine torch",
     "--engine must be 'plain' or 'threads' with a --density-weight; got 'torch'"),
    ("map plain.npz -o m.npz --onto other.npz", "one of none of them"),
    ("map plain.npz -o m.npz --onto wide.npz", "a map of 2 components"),
    ("map t.csv -o m.npz --metric precomputed", "every distance must be a number; got 'a' in column 'z' on line 2 ... "
     "given by --names, one of groups by --labels; there are 'x', 'y', 'z'", "x,y,z\n0,2,a\n3,0,a\n2,3.5,a\n"),
    ("map t.csv -o m.npz --labels z", "--labels must be one of the columns: 'x', 'y'; got 'z'", TWO),
    ("map t.csv -o m.npz --names 2", "--names must be a position from 0 to 1; got '2'", "1,2\n1,2\n"),
    ("map t.csv -o m.npz", "every line must be of 2 fields separated by ',', as the first one ('x,y'); got 3 on line 3",
     "x,y\n1.5,2.5\n1,2,3\n"),
    ("map t.csv -o m.npz --kind table", "at least one row of numbers; got none", "\n"),
    ("map t.csv -o m.npz", "text in UTF-8", "x,\x9d\n1,2\n"),
    ("map t.csv -o m.npz --names a", "distinct", "a,x,y\n1,2,3\n1,3,4\n"),
    ("map t.csv -o m.npz --side context", "--side is for a file of vectors", TWO),
    ("map t.csv -o m.npz --obsm X_pca", "--obsm is for AnnData", TWO),
    *(("map t.csv -o m.npz --metric precomputed", f"got '{gap}' in column 'y' on line 3 of 't.csv'",
       f"x,y\n0,2.5\n2,{gap}\n") for gap in ("", "NA", "?")),
    ("map t.csv -o m.npz", "differ; got 'alpha' (constant), 'day' (constant)", "alpha,day\n" + "1.5,2020-01-01\n" * 9),
    ("map t.csv -o m.npz", "columns have different names; got two called 'x'", "x,y,x\n1.5,2.5,3.5\n"),
    ("map t.csv -o m.npz --labels label", "a column of coordinates; got columns 'id', 'label'", "id,label\n1,a\n2,b\n"),
    ("map t.csv -o m.npz --kind table", "differ; got 'kind' (constant)", "kind,name\nu,a\nu,b\n"),
    ("advise t.csv --kind table",
     "nearfar: advise: FILE must be one with a column of numbers, categories or dates that differ",
     "a,b,c,d\n" + "x,y,z,w\n" * 4),
    ("t.csv", "which is empty", ""),
    ("t.csv", "nearfar: look: FILE must be text in UTF-8; ... a zero byte, so it is no text on line 1. ",
     "\1\0\2" * 99),
    ("embed t.csv -o x.npz", "nearfar: embed: EDGES must be text in UTF-8; ... no text on line 1. Pass", "\1\0\2" * 99),
    ("info none.npz", "nearfar: info: FILE must be a file that exists; got 'none.npz'"),
    ("pair.npz", "nearfar: look: FILE must be of at least 3 "),
    ("compare plain.npz none.npz", "nearfar: compare: B must be a file that exists; got 'none.npz'"),
    ("embed t.csv -o x.npz", "nearfar: embed: --n-components must be at most 3,", "a,b\nb,c\nc,a\n"),
    ("look none.csv", "A text itself comes through standard input: -."),
    ("t.data", "an HTML page", "<!doctype html>\n<html>"),
    ("t.graph", "lines of numbers", "4 3\n2\n1 3\n2 4\n3\n"),
    ("mixed", "a folder of 1 .csv, 1 .png"),
    ("words train t.txt -o out.npz --window 0", "--window must be", "a b c\n"),
    ("words train t.txt -o out.npz --init nowhere.vec", "--init must be a file that exists; got 'nowhere", "a b c\n"),
    ("words train t.txt -o out.npz --init t.txt", "t.txt: file must be in the word2vec", "a b c\n"),
    ("words train t.txt -o out.npz --init x.npy", "--init must be a file name with one of the suffixes", "a b c\n"),
    ("words train t.txt -o out.npz --token-pattern '(a)(b)'", "one group at most", "a b c\n"),
    ("words senses density.npz dan", "got 'dan'"),
    ("words senses plain.npz a", "plain.npz: file must be one whose vectors are "),
    ("words senses density.npz a --n-senses 0", "--n-senses must be an integer"),
    ("words evaluate plain.npz --phrases t.txt", "a header that names a score", "a b c\n"),
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with what is refused; a command leaves it as it was."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    ids = [chr(97 + k) for k in range(12)]
    sides = {"context_vectors": np.eye(2), "context_ids": ["up", "diagonal"]}
    nf.Embedding(np.eye(4, 2), ["ann", "bob", 17, "nil"], **sides).save(folder / "people.npz")
    nf.Embedding(rng.normal(size=(12, 5)), ids).save(folder / "plain.npz")
    nf.Embedding(np.zeros((2, 2)), ["x", "y"]).save(folder / "other.npz")
    nf.Embedding(np.eye(2, 5), ["x", "y"]).save(folder / "pair.npz")
    nf.Embedding(np.zeros((2, 4)), ["a", "y"]).save(folder / "wide.npz")
    nf.DensityEmbedding.from_factors(rng.normal(size=(3, 3, 2)), ["a", "b", "c"]).save(folder / "density.npz")
    (folder / "x.npy").touch()
    (folder / "mixed").mkdir()
    for name in ("a.csv", "b.png"):
        (folder / "mixed" / name).write_text("a")
    return folder


@pytest.mark.parametrize("row", [*BEFORE, *AFTER], ids=lambda row: row[0])
def test_refusals(row, fails, files, tmp_path, monkeypatch):
    folder = files if row in AFTER else tmp_path
    monkeypatch.chdir(folder)
    command, said, *text = row
    (folder / "folder.npz").mkdir(exist_ok=True)
    given = folder / next((word for word in command.split() if word.startswith("t.")), "t.csv")
    if row in AFTER:
        given.write_bytes("".join(text).encode("latin-1"))
    before = sorted(folder.iterdir())
    told = fails(*shlex.split(command))
    for words in said.split(" ... "):
        assert words.strip() in told
    assert sorted(folder.iterdir()) == before
    given.unlink(missing_ok=True)
