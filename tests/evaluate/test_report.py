"""A page about an embedding: its figures against plain NumPy, both forms, hostile ids, files, the command."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import skew

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import InputError, UnknownIdError
from nearfar.evaluate import report

HOSTILE = ["<script>alert(1)</script>", "a|b `c` *d* [e](f)", "\"quoted\" & 'so'", "line\nbreak\x07", "\u202eright", ""]


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.attributes = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def emb(rng):
    X = rng.normal(size=(80, 6)) * [4, 3, 2, 1, 1, 0.1] + [2, 0, 0, 0, 0, 0]
    X[7] = X[11] = X[3]
    X[9] = 0
    return nf.Embedding(X, [f"n{i}" for i in range(80)], parameters={"estimator": "EDRep", "n_epochs": 30})


def test_figures_are_those_of_plain_numpy(emb):
    facts = report(emb, k=5, plots=False).facts
    X = emb.vectors
    norms = np.linalg.norm(X, axis=1)
    assert facts["lengths"]["mean"] == pytest.approx(norms.mean())
    assert facts["lengths"]["largest"] == pytest.approx(norms.max())
    assert facts["lengths"]["zero_vectors"] == 1
    U = X[norms > 0] / norms[norms > 0, None]
    cosines = U @ U.T
    assert facts["isotropy"]["mean_cosine"] == pytest.approx(cosines[np.triu_indices(79, 1)].mean())
    _, directions = np.linalg.eigh(X.T @ X)
    Z = np.exp(X @ np.c_[directions, -directions]).sum(axis=0)
    assert facts["isotropy"]["partition_ratio"] == pytest.approx(Z.min() / Z.max())
    variances = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert facts["dimension"]["participation_ratio"] == pytest.approx(variances.sum() ** 2 / (variances**2).sum())
    share = variances / variances.sum()
    assert facts["dimension"]["effective_rank"] == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    assert facts["dimension"]["components_for_90_percent"] == 3
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :5]
    counts = np.bincount(nearest.ravel(), minlength=79)
    assert facts["hubness"]["skewness"] == pytest.approx(skew(counts), abs=0.05)  # ties of equal rows
    assert facts["hubness"]["largest"] == pytest.approx(counts.max(), abs=2)
    assert facts["hubness"]["never"] == pytest.approx((counts == 0).mean(), abs=0.02)
    assert facts["duplicates"]["equal_to_another"] == 2
    assert facts["duplicates"]["first"] == ["n7", "n11"]


def test_what_is_printed_of_a_page_is_short(emb):
    made = report(emb, plots=False)
    assert repr(made).startswith("Report('Embedding of 80 ids', ")
    assert repr(made).endswith(" figures, 0 pictures)")


def test_figures_do_not_depend_on_the_blocks(emb, monkeypatch):
    whole = report(emb, plots=False).facts
    monkeypatch.setattr(sys.modules["nearfar.evaluate.report"], "_ROWS", 7)
    parts = report(emb, plots=False).facts
    for section in ("isotropy", "dimension"):
        assert parts[section] == pytest.approx(whole[section])
    assert parts["duplicates"] == whole["duplicates"]


def test_the_hash_tells_vectors_ids_and_sides_apart(emb, tmp_path):
    def digest(other):
        return report(other, plots=False).facts["what"]["sha256"]

    emb.save(tmp_path / "e.npz")
    assert digest(nf.Embedding.load(tmp_path / "e.npz")) == digest(emb)
    others = [
        nf.Embedding(emb.vectors + 1e-9, emb.ids),
        nf.Embedding(emb.vectors, list(emb.ids)[::-1]),
        nf.Embedding(emb.vectors),
        nf.Embedding(emb.vectors, [str(i) for i in range(80)]),
        nf.Embedding(emb.vectors, emb.ids, context_vectors=emb.vectors[:3]),
    ]
    assert len({digest(emb), *map(digest, others)}) == 6


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_page_says_all_and_needs_no_network(emb, form):
    made = report(emb, title="People")
    text = made.to_html() if form == "html" else made.to_markdown()
    for words in ("People", "EDRep", "epochs", "Lengths", "Isotropy", "Hubness", "Duplicates", "dimension", "Tasks"):
        assert words in text
    assert made.facts["what"]["sha256"] in text
    assert text.count("data:image/png;base64,") == 4
    assert "http:" not in text
    assert "https:" not in text
    if form == "html":
        page = Page(text)
        assert not {"script", "link", "iframe"} & set(page.tags)
        assert text.startswith("<!doctype html>")
        assert ("id", "map") in page.attributes  # where the map goes
        assert all(name != "alt" or value for name, value in page.attributes)


def test_ids_and_parameters_that_look_like_html_are_text(rng):
    X = np.repeat(rng.normal(size=(2, 3)), 3, axis=0)
    made = report(
        nf.Embedding(X, HOSTILE, parameters={"<b>edges</b>": "<img src=x onerror=alert(1)>"}),
        title="<script>2</script>",
        plots=False,
    )
    text = made.to_html()
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "b" not in page.tags
    assert HOSTILE[1] in "".join(page.words)
    assert "<script>2</script>" in "".join(page.words)
    assert "\u202e" not in text
    assert "\x07" not in text
    markdown = made.to_markdown()
    assert "<script>" not in markdown
    assert "<img" not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_tasks_that_apply_are_done(emb):
    labels = {f"n{i}": "even" if emb.vectors[i, 0] > 0 else "odd" for i in range(80) if i != 9}
    pairs = [(f"n{i}", f"n{i + 1}", float(i % 5)) for i in range(20)]
    made = report(emb, labels=labels, pairs=pairs, plots=False, random_state=0)
    tasks = made.facts["tasks"]
    assert tasks["label_micro_f1"] > 0.8
    assert tasks["labels"] == 2
    assert -1 <= tasks["similarity_rho"] <= 1
    low, high = tasks["label_micro_f1_interval"]
    assert low <= tasks["label_micro_f1"] <= high
    assert "None was asked for" in report(emb, plots=False).to_html()
    with pytest.raises(UnknownIdError, match="'nobody'"):
        report(emb, labels={"nobody": 1, "n1": 2}, plots=False)


def test_the_stability_of_a_map_is_told(rng):
    X = np.repeat(np.eye(3, 6) * 9, 10, axis=0) + rng.normal(size=(30, 6))
    est = nf.TSNE(perplexity=5, max_iter=60, random_state=0).fit(X)
    found = nf.evaluate.map_stability(est, n_refits=2, max_iter=20, random_state=0)
    page = nf.evaluate.report(est.vectors_, stability=found, plots=False)
    assert page.facts["tasks"] == {"unstable": found.unstable, "least_stable": [key for key, _ in found.least_stable()]}
    assert "unstable points" in page.to_html()
    with pytest.raises(InputError, match=r"stability must be what evaluate\.map_stability returns; got float"):
        nf.evaluate.report(est.vectors_, stability=0.5, plots=False)


def test_files_appear_whole_or_not_at_all(emb, tmp_path, monkeypatch):
    made = report(emb, plots=False)
    made.save(tmp_path / "r.html")
    made.save(tmp_path / "r.md")
    assert (tmp_path / "r.html").read_text("utf-8") == made.to_html()
    assert (tmp_path / "r.md").read_text("utf-8") == made.to_markdown()
    monkeypatch.setattr(type(made), "to_html", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.save(tmp_path / "r.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.md"]
    with pytest.raises(InputError, match="path must be a file name ending in"):
        made.save(tmp_path / "r.pdf")
    with pytest.raises(InputError, match="in a folder that exists"):
        made.save(tmp_path / "no" / "r.html")


def test_a_large_one_is_sampled_and_says_so(rng, monkeypatch):
    module = sys.modules["nearfar.evaluate.report"]  # the function has the name of its module
    monkeypatch.setattr(module, "_SOME", 50)
    monkeypatch.setattr(module, "_ROWS", 70)
    emb = nf.Embedding(rng.normal(size=(300, 3)))
    one, two = (report(emb, k=5, random_state=1) for _ in range(2))
    assert one.facts["hubness"]["sample"] == 50
    assert one.facts == two.facts
    assert one.to_html() == two.to_html()
    assert "50" in one.to_markdown()


@pytest.mark.parametrize(
    "emb",
    [
        nf.Embedding([[1.0, 2.0]]),
        nf.Embedding(np.zeros((5, 2))),
        pytest.param(nf.Embedding(np.ones((5, 1))), marks=pytest.mark.slow),
        pytest.param(nf.Embedding(np.full((4, 2), 1e30)), marks=pytest.mark.slow),
        nf.Embedding(np.empty((0, 3))),
    ],
    ids=["one", "zeros", "equal", "huge", "empty"],
)
def test_odd_embeddings_have_a_page(emb):
    made = report(emb)
    assert not re.search(r"\b(nan|inf)\b", " ".join(Page(made.to_html()).words))
    json.dumps(made.facts)


def test_other_kinds_of_embeddings(rng):
    anchored = nf.AnchoredEmbedding(rng.random((20, 4)), rng.normal(size=(4, 3)))
    density = nf.DensityEmbedding.from_factors(rng.normal(size=(20, 3, 2)))
    two = nf.Embedding(rng.normal(size=(20, 3)), context_vectors=rng.normal(size=(5, 3)))
    assert report(anchored, k=3, plots=False).facts["what"]["kind"] == "AnchoredEmbedding"
    assert report(density, k=3, plots=False).facts["what"]["kind"] == "DensityEmbedding"
    assert report(two, k=3, plots=False).facts["what"]["n_context"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": np.ones((4, 2))}, "embedding must be an Embedding"),
        ({"k": 0}, "k must be"),
        ({"plots": 1}, "plots must be True or False"),
        ({"title": 3}, "title must be"),
    ],
)
def test_bad_arguments(emb, change, message):
    with pytest.raises(InputError, match=message):
        report(**({"embedding": emb} | change))


class TestCommand:
    @pytest.fixture
    def stored(self, emb, tmp_path):
        emb.save(tmp_path / "e.safetensors")
        lines = [f"n{i},{'up' if emb.vectors[i, 0] > 0 else 'down'}" for i in range(80)]
        (tmp_path / "labels.csv").write_text("id,label\n" + "\n".join(lines))
        return tmp_path

    def test_writes_a_page_and_says_where(self, stored, capsys):
        assert main(["report", str(stored / "e.safetensors"), "-o", str(stored / "r.html"), "--no-plots"]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "r.html: 80 vectors of 6" in err
        assert (stored / "r.html").read_text("utf-8").startswith("<!doctype html>")

    def test_labels_and_json(self, stored, shown):
        args = ["report", stored / "e.safetensors", "-o", stored / "r.md", "--labels", stored / "labels.csv"]
        said = json.loads(shown(*args, "--random-state", "0", "--json"))
        assert said["output"].endswith("r.md")
        assert said["tasks"]["label_micro_f1"] > 0.8
        low, high = said["tasks"]["label_micro_f1_interval"]
        page = (stored / "r.md").read_text("utf-8")
        assert f"({low:.4g} to {high:.4g})" in page  # in one row with the score
        assert "f1 interval" not in page
        assert "micro" in (stored / "r.md").read_text("utf-8")

    def test_one_side_of_two(self, stored, rng, shown):
        nf.Embedding(rng.normal(size=(20, 3)), context_vectors=rng.normal(size=(9, 3))).save(stored / "two.npz")
        args = ["report", str(stored / "two.npz"), "-o", str(stored / "r.html"), "--no-plots", "--json"]
        assert json.loads(shown(*args, "--side", "context"))["what"]["n"] == 9

    def test_refuses_before_it_reads(self, stored, fails):
        assert "ending in .html" in fails("report", "nowhere.npz", "-o", stored / "r.pdf")
        assert "nowhere.npz" in fails("report", "nowhere.npz", "-o", stored / "r.html")
        (stored / "bad.csv").write_text("id,label\nnobody,1\nn1,2\n")
        args = ["report", stored / "e.safetensors", "-o", stored / "r.html", "--labels", stored / "bad.csv"]
        assert "'nobody'" in fails(*args)
        assert not (stored / "r.html").exists()


def test_a_page_can_hold_the_interactive_map(tmp_path):
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(30, 3)), ["<script>x</script>", *map(str, range(29))])
    page = nf.evaluate.report(emb, plots=False, map_page=emb.map(emb.vectors[:, :2], n_neighbors=3))
    text = page.to_html()
    assert text.count("<iframe") == 1
    assert "<script" not in text  # those of the map are text of an attribute
    assert "default-src 'none'" in text
    assert "<iframe" not in nf.evaluate.report(emb, plots=False).to_html()
    with pytest.raises(InputError, match="map_page must be what embedding"):
        nf.evaluate.report(emb, plots=False, map_page="map.html")
