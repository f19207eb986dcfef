"""The command line: results, one-line errors with their exit codes, and no half files."""

import errno
import gzip
import io
import json
import os
import re
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import nearfar as nf
from nearfar._version import __version__
from nearfar.cli import main
from nearfar.cli.maps import METHODS
from nearfar.errors import NearfarWarning

COMMANDS = ["advise", "embed", "map", "similar", "compare", "convert", "compress", "info"]


@pytest.fixture
def stored(tmp_path):
    """A file of four vectors in the plane; 17 is an integer."""
    path = tmp_path / "people.safetensors"
    nf.Embedding(
        [[1, 0], [3, 1], [0, 2], [0, 0]],
        ["ann", "bob", 17, "nil"],
        context_vectors=[[0, 1], [1, 1]],
        context_ids=["up", "diagonal"],
        parameters={"n_epochs": 30, "edges": "people.csv"},
    ).save(path)
    return path


@pytest.fixture(scope="module")
def karate(tmp_path_factory):
    """A small real network as a file with a header and weights."""
    path = tmp_path_factory.mktemp("karate") / "karate.csv"
    lines = [f"member {u},member {v},{d['weight']}" for u, v, d in nx.karate_club_graph().edges(data=True)]
    path.write_text("from,to,times\n" + "\n".join(lines) + "\n")
    return path


class TestHelp:
    def test_version(self, run):
        assert run("--version") == (0, f"nearfar {__version__}\n", "")

    def test_nothing_shows_the_help(self, run):
        code, out, _ = run()
        assert code == 0
        assert all(command in out for command in COMMANDS)
        assert run("--help")[1] == out == run("-h")[1]

    @pytest.mark.parametrize("command", COMMANDS)
    def test_teaches_by_examples(self, run, command):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert re.search(rf"Examples:\n(    .*\n)*    .*nearfar {command} ", out)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_name_options_that_exist(self, run, command):
        out = run(command, "--help")[1]
        examples = out[out.index("Examples:") : out.index("Options:")]
        for option in re.findall(r"--[a-z][a-z0-9-]*", examples):
            assert re.search(rf"^ +(-\w, )?{option}\b", out[out.index("Options:") :], re.MULTILINE)

    def test_answers_without_loading_anything_heavy(self):
        code = "import sys; from nearfar.cli import main; main(['--help']); print(sorted(sys.modules))"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        loaded = out[out.rindex("[") :]
        assert all(f"'{name}'" not in loaded for name in ("numpy", "scipy", "numba", "rich", "sklearn"))


class TestSimilar:
    def test_lines_for_the_next_program(self, run, stored):
        assert run("similar", stored, "ann") == (0, "bob\t0.9487\n17\t0.0000\nnil\t0.0000\n", "")

    def test_table_on_a_terminal(self, run, tmp_path, monkeypatch):
        path = tmp_path / "x.npz"
        nf.Embedding(np.eye(2), ["ann", "[bold]"]).save(path)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "dumb")
        code, out, _ = run("similar", path, "ann")
        assert code == 0
        assert [line.split() for line in out.splitlines()] == [["id", "cosine"], ["[bold]", "0.0000"]]

    def test_json(self, run, stored):
        code, out, _ = run("similar", stored, "ann", "17", "--negative", "bob", "--topn", 5, "--json")
        answer = json.loads(out)
        assert code == 0
        assert answer["positive"] == ["ann", 17]
        assert answer["negative"] == ["bob"]
        assert [entry["id"] for entry in answer["similar"]] == ["nil"]

    def test_finds_integers_and_prefers_text(self, run, tmp_path):
        path = tmp_path / "x.safetensors"
        nf.Embedding(np.eye(3), ["17", 17, -5]).save(path)
        assert json.loads(run("similar", path, "17", "--json")[1])["positive"] == ["17"]
        assert json.loads(run("similar", path, "--json", "--", "-5")[1])["positive"] == [-5]

    def test_other_side(self, run, stored):
        assert run("similar", stored, "17", "--context")[1].split() == ["up", "1.0000", "diagonal", "0.7071"]
        code, out, _ = run("similar", stored, "up", "--side", "context")
        assert (code, out.split()[0]) == (0, "diagonal")

    def test_ids_that_a_terminal_cannot_show(self, run, tmp_path):
        path = tmp_path / "x.safetensors"
        nf.Embedding([[1.0], [2], [3], [4], [5]], ["a", "b\tc", "", "\ud800", ("d", 1)]).save(path)
        lines = run("similar", path, "a")[1].splitlines()
        assert [line.rpartition("\t")[0] for line in lines] == ["'b\\tc'", "''", "'\\ud800'", "d@1"]
        entries = json.loads(run("similar", path, "a", "--json")[1])["similar"]
        assert entries[-1]["id"] == ["d", 1]


class TestConvertAndInfo:
    def test_convert_there_and_back(self, run, stored, tmp_path):
        assert run("convert", stored, tmp_path / "x.npz") == (0, "", "")
        assert run("convert", tmp_path / "x.npz", tmp_path / "y.safetensors") == (0, "", "")
        code, out, err = run("convert", stored, tmp_path / "z.npz", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["output"] == str(tmp_path / "z.npz")
        assert json.loads(out)["n"] == len(nf.Embedding.load(stored))
        assert nf.Embedding.load(tmp_path / "y.safetensors").equals(nf.Embedding.load(stored))

    def test_convert_tells_what_is_left_out(self, run, tmp_path):
        nf.Embedding(np.eye(2), ["a", "b"], context_vectors=np.eye(2)).save(tmp_path / "x.npz")
        code, out, err = run("convert", tmp_path / "x.npz", tmp_path / "x.vec")
        assert (code, out) == (0, "")
        assert err.startswith("nearfar: warning: ")
        assert err.count("\n") == 1
        assert list(nf.Embedding.load(tmp_path / "x.vec")) == ["a", "b"]

    @pytest.mark.parametrize("suffix", ["safetensors", "vec", "npz"])
    def test_one_side_of_two(self, run, stored, tmp_path, suffix):
        sides = {"vectors": ["ann", "bob", 17, "nil"], "context": ["up", "diagonal"]}
        for side, ids in sides.items():
            out = tmp_path / f"{side}.{suffix}"
            assert run("convert", stored, out, "--side", side) == (0, "", "")
            emb = nf.Embedding.load(out)
            assert list(emb) == (list(map(str, ids)) if suffix == "vec" else ids)
            assert emb.context_ids is None
            options = ("--n-anchors", 2, "--nnz-per-row", 2, "--side", side, "--json")
            assert json.loads(run("compress", stored, "-o", tmp_path / "c.safetensors", *options)[1])["n"] == len(ids)

    def test_compress_keeps_both_sides(self, run, stored, tmp_path):
        out = tmp_path / "small.safetensors"
        args = ("compress", stored, "-o", out, "--n-anchors", 3, "--nnz-per-row", 3, "--random-state", 0)
        assert "4 vectors and 2 of the other side of 2, 3 anchors" in run(*args)[2]
        assert run("similar", out, "17", "--context", "--topn", 1)[1].split() == ["up", "1.0000"]
        assert "n_context\t2" in run("info", out)[1]

    def test_convert_by_named_formats(self, run, tmp_path):
        (tmp_path / "x.dat").write_text("1 2\nann 1 2\n")
        args = ("convert", tmp_path / "x.dat", tmp_path / "y.dat", "--from", "word2vec-text", "--to", "word2vec-binary")
        assert run(*args)[0] == 0
        assert nf.Embedding.from_word2vec(tmp_path / "y.dat", binary=True)["ann"].tolist() == [1, 2]

    @pytest.mark.parametrize("kind", ["int8", "int4"])
    def test_convert_to_few_bits(self, run, stored, tmp_path, kind):
        out = tmp_path / "small.safetensors"
        told = json.loads(run("convert", stored, out, "--quantize", kind, "--json")[1])
        assert nf.Embedding.load(out).equals(nf.Embedding.load(stored).quantize(kind))
        assert told["bytes"] == out.stat().st_size
        assert 0 < told["quantize_error"] < (0.01 if kind == "int8" else 0.2)
        one = tmp_path / "one.safetensors"
        assert run("convert", stored, one, "--quantize", kind, "--side", "context") == (0, "", "")
        assert nf.Embedding.load(one).equals(nf.Embedding.load(stored).context.quantize(kind))
        assert run("similar", out, "ann", "--topn", 1)[0] == 0

    def test_info(self, run, stored):
        code, out, _ = run("info", stored)
        facts = dict(line.strip().split("\t") for line in out.splitlines())
        assert code == 0
        assert facts["n"] == "4"
        assert facts["n_components"] == "2"
        assert facts["n_context"] == "2"
        assert facts["zero_vectors"] == "1"
        assert facts["id_types"] == "int, str"
        assert facts["first_ids"] == "ann, bob, 17, nil"
        facts = json.loads(run("info", stored, "--json")[1])
        assert facts["format"] == "safetensors"
        assert facts["bytes"] == stored.stat().st_size
        assert facts["parameters"] == {"n_epochs": 30, "edges": "people.csv"}
        assert facts["mean_norm"] == pytest.approx((1 + 10**0.5 + 2) / 4)


class TestEmbed:
    SMALL = ("--n-components", 8, "--random-state", 1, "--n-jobs", 1)

    def test_file_to_vectors(self, run, karate, tmp_path):
        out = tmp_path / "k.safetensors"
        code, stdout, stderr = run("embed", karate, "-o", out, *self.SMALL)
        assert (code, stdout) == (0, "")
        assert "34 vectors of 8 from 156 relations (0 isolates, 0 sinks), loss " in stderr
        emb = nf.Embedding.load(out)
        assert emb.vectors.shape == (34, 8)
        assert emb.parameters["walk_length"] == 3
        assert emb.parameters["estimator"] == "EDRep"
        summary = json.loads(run("embed", karate, "-o", tmp_path / "k.vec", *self.SMALL, "--json")[1])
        assert (summary["n"], summary["n_components"]) == (34, 8)
        assert summary["relation"]["isolates"] == 0
        assert summary["parameters"]["random_state"] == 1
        assert np.isfinite(summary["loss"])

    def test_is_what_the_library_makes(self, run, karate, tmp_path):
        run("embed", karate, "-o", tmp_path / "k.npz", *self.SMALL, "--walk-length", 2, "--n-epochs", 7, "-q")
        rel = nf.Relation.from_edges(karate).random_walk(2)
        fitted = nf.EDRep(n_components=8, n_epochs=7, random_state=1, n_jobs=1).fit(rel)
        assert fitted.vectors_.equals(nf.Embedding.load(tmp_path / "k.npz"))

    def test_standard_input_and_gzip_are_the_file(self, run, karate, tmp_path, monkeypatch):
        packed = tmp_path / "k.csv.gz"
        packed.write_bytes(gzip.compress(karate.read_bytes()))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(karate.read_bytes())))
        for name, edges in [("a", karate), ("b", packed), ("c", "-")]:
            assert run("embed", edges, "-o", tmp_path / f"{name}.npz", *self.SMALL, "-q") == (0, "", "")
        a, b, c = (nf.Embedding.load(tmp_path / f"{name}.npz") for name in "abc")
        assert a.equals(b)
        assert a.equals(c)

    def test_columns_weights_and_direction(self, run, tmp_path, monkeypatch):
        asked = []

        def from_edges(edges, **options):
            asked.append(options)
            raise KeyboardInterrupt

        monkeypatch.setattr(nf.Relation, "from_edges", from_edges)
        args = ("embed", tmp_path / "e.tsv", "-o", tmp_path / "x.npz")
        columns = ("--source", "from", "--target", "to", "--weight", "km", "--delimiter", "tab", "--header")
        for more in ((*columns, "--directed"), ("--source", 2, "--target", 1, "--weight", 3, "--no-header"), ()):
            assert run(*args, *more)[0] == 130
        names = ("source", "target", "weight", "delimiter", "header", "directed")
        assert [tuple(options[name] for name in names) for options in asked] == [
            ("from", "to", "km", "\t", True, True),
            (2, 1, 3, None, False, False),
            (None, None, None, None, "infer", False),
        ]

    def test_columns_that_were_read_and_left_out(self, run, tmp_path):
        edges, out = tmp_path / "e.csv", tmp_path / "x.safetensors"
        edges.write_text("id,person,friend,since\n1,a,b,2009\n2,b,c,2010\n3,c,a,2011\n")
        args = ("embed", edges, "-o", out, "--n-components", 2, "--random-state", 0)
        summary = json.loads(run(*args, "--json")[1])
        assert (summary["relation"]["columns"]["source"], summary["relation"]["columns"]["target"]) == (
            "person",
            "friend",
        )
        edges.write_text("id,person,friend,since\n1,a,b,2009\n2,b,c,2010\n3,c,a,2011\n")
        code, _, err = run(*args, "--columns", "person,friend")
        assert (code, err.count("\n")) == (0, 1)
        assert ", columns 'person' -> 'friend' without weight, not 'id', 'since' (commas, a header), " in err
        assert nf.Embedding.load(out).parameters["columns"] == ["person", "friend"]
        summary = json.loads(run(*args, "--columns", "1,2,3", "--json")[1])
        taken = {"source": "person", "target": "friend", "weight": "since", "left_out": ["id"]}
        taken |= {"form": "commas, a header"}
        assert summary["relation"]["columns"] == taken

    def test_warnings_name_the_options(self, run, tmp_path):
        edges, out = tmp_path / "e.csv", tmp_path / "x.safetensors"
        edges.write_text("user,item,rating\n1,1,5\n1,2,3\n2,1,4\n")
        args = ("embed", edges, "-o", out, "--n-components", 2, "-q")
        assert run(*args) == (0, "", "")
        assert nf.Embedding.load(out).context_ids.to_list() == [1, 2]
        assert run(*args, "--no-bipartite") == (0, "", "")
        assert nf.Embedding.load(out).context_vectors is None
        assert run(*args, "--bipartite") == (0, "", "")
        assert nf.Embedding.load(out).context_ids.to_list() == [1, 2]
        edges.write_text("20 1 3\n20 2 1\n40 3 2\n60 2 3\n")
        _, _, err = run(*args)
        assert "column 0 (20, 20, 40, ...) looks like times; 1 -> 2 is read. Name the" in err
        assert run(*args, "--columns", "1,2") == (0, "", "")

    def test_a_task_is_the_call_of_the_library(self, run, tmp_path):
        rng, edges, out = np.random.default_rng(0), tmp_path / "likes.csv", tmp_path / "x.safetensors"
        pairs = {(f"u{user}", f"i{int(item)}") for user in range(80) for item in 60 * rng.random(6) ** 2}
        edges.write_text("".join(f"{user},{item}\n" for user, item in sorted(pairs)))
        args = ("embed", edges, "-o", out, "--n-components", 4, "--n-epochs", 3, "--random-state", 1, "--n-jobs", 1)
        code, said, err = run(*args, "--bipartite", "--task", "items", "--json")
        likes = nf.Relation.from_edges(edges, bipartite=True)
        est = nf.EDRep(4, task="items", n_epochs=3, random_state=1, n_jobs=1).fit(likes)
        assert code == 0
        assert json.loads(said)["choice"] == est.choice_
        assert est.choice_ in err
        made = nf.Embedding.load(out)
        assert made.equals(est.vectors_)
        assert made.recommend("u1", 3, exclude=likes) == est.vectors_.recommend("u1", 3, exclude=likes)
        assert run(*args, "--task", "links", "--walk-length", 2, "--no-bipartite", "-q")[0] == 0
        walk = nf.Relation.from_edges(edges, bipartite=False).random_walk(2)
        est = nf.EDRep(4, task="links", n_epochs=3, random_state=1, n_jobs=1).fit(walk)
        assert nf.Embedding.load(out).equals(est.vectors_)
        assert run(*args, "--temperature", "auto", "--no-bipartite", "-q")[0] == 0

    def test_likes(self, run, tmp_path):
        """The vectors of the defaults coincide, which is told with the options to change; they are the library's."""
        rng, edges, out = np.random.default_rng(0), tmp_path / "likes.csv", tmp_path / "x.safetensors"
        pairs = {(f"u{user}", f"i{int(item)}") for user in range(300) for item in 60 * rng.random(6) ** 5}
        edges.write_text("".join(f"{user},{item}\n" for user, item in sorted(pairs)))
        args = ("embed", edges, "-o", out, "--bipartite", *self.SMALL, "--n-components", 4, "-q")
        code, _, err = run(*args)
        assert (code, err.count("\n")) == (0, 1)
        assert "between them. Their neighbours" in err
        assert "Try --task items where columns are items of uneven popularity, or --temperature below 1." in err
        assert run(*args, "--temperature", 0.5, "--ppmi") == (0, "", "")
        made, likes = nf.Embedding.load(out), nf.Relation.from_edges(edges, bipartite=True)
        assert (made.parameters["temperature"], made.parameters["ppmi"]) == (0.5, True)
        model = nf.EDRep(4, temperature=0.5, random_state=1, n_jobs=1).fit(likes.ppmi().normalized())
        assert model.vectors_.equals(made)

    def test_comments(self, run, tmp_path):
        edges = tmp_path / "e.csv"
        edges.write_text("% said once\na,b\n#b,a\n#b,c\n")
        args = ("embed", edges, "-o", tmp_path / "x.npz", "--n-components", 2, "--random-state", 0, "-q")
        assert run(*args) == (0, "", "")
        assert run(*args, "--comments", "%") == (0, "", "")
        assert list(nf.Embedding.load(tmp_path / "x.npz")) == ["a", "b", "#b", "c"]
        edges.write_text("#a,b\na,b\n")
        assert run(*args, "--comments", "") == (0, "", "")
        assert list(nf.Embedding.load(tmp_path / "x.npz")) == ["#a", "b", "a"]

    def test_hints_name_options_of_the_command_that_runs(self):
        """Over all pairs of an argument of Python and a command."""
        from nearfar import cli
        from nearfar.cli.options import Command
        from nearfar.cli.said import with_options

        groups = (cli._cli, cli.words, cli.evaluate)
        commands = [command for group in groups for command in group.commands.values() if isinstance(command, Command)]
        names = {item.name for command in commands for item in command.params}
        forms = ("{}='it'", "{}=None", "{}=True", "{}=False", "{}=0.5", "{}=", "leave {}=None")
        assert len(commands) > 10
        for command in commands:
            Command.running = command
            switches = {name for item in command.params for name in (*item.opts, *item.secondary_opts)}
            for name in names:
                for form in forms:
                    said = with_options(f"Pass {form.format(name)}.")
                    assert set(re.findall(r"--[a-z][a-z0-9-]+", said)) <= switches, (command.name, name)

    @pytest.mark.parametrize(
        ("hint", "said"),
        [
            ("Say so by columns=(source, target, 'time').", "Say so by --columns source,target,time."),
            ("header=False reads an edge, comments=None", "--no-header reads an edge, --comments ''"),
            (
                "Pass bipartite=True for two, bipartite=False for one.",
                "Pass --bipartite for two, --no-bipartite for one.",
            ),
            ("or pass weight=False to ignore", "or pass --no-weight to ignore"),
            ("Leave engine=None, or take engine='threads'.", "Leave out --engine, or take --engine threads."),
            ("at least 1 of n_components, or task='items' here", "at least 1 of --n-components, or --task items here"),
            ("a mark by comments=", "a mark by --comments"),
            ("Name the comments or delimiter='; '", "Name the --comments or --delimiter '; '"),
            ("take far='exact' or 'noise'", "take --far exact or noise"),
            (
                "nf.Relation.from_edges(x, columns=(0, 1)) of the source",
                "nf.Relation.from_edges(x, columns=(0, 1)) of the source",
            ),
            ("encoding_errors='replace' goes on", "encoding_errors='replace' goes on"),  # no option of embed
        ],
    )
    def test_hints_are_in_words_of_the_shell(self, hint, said):
        from nearfar import cli
        from nearfar.cli.said import with_options

        cli.options.Command.running = cli._cli.commands["embed"]
        assert with_options(hint) == said

    def test_all_that_read_edges_have_the_same_options(self, run, tmp_path):
        edges = tmp_path / "e.txt"
        edges.write_text("when;who;whom;n\n" + "".join(f"{k};a{k % 20};a{k // 4};{k}\n" for k in range(80)))
        form = ("--columns", "who,whom", "--delimiter", ";", "--header", "--no-weight", "--comments", "//")
        assert run("embed", edges, "-o", tmp_path / "x.npz", "--n-components", 2, "--n-epochs", 1, *form, "-q")[0] == 0
        code, out, _ = run("evaluate", "links", edges, "--n-components", 2, "--n-repeats", 1, "--json", *form)
        assert (code, json.loads(out)["n_edges"] > 5) == (0, True)
        edges.write_text(",from,to,n\n" + "".join(f"{k},a{k % 20},a{k // 4},{k}\n" for k in range(80)))
        assert "graph of 20 nodes" in run("advise", edges)[1]  # as embed reads it, and no table of four columns
        (tmp_path / "l.txt").write_text("% of all\ngroup;node\n" + "".join(f"{k % 2};a{k}\n" for k in range(20)))
        args = ("evaluate", "labels", tmp_path / "x.npz", tmp_path / "l.txt", "--random-state", 0, "--json")
        code, out, _ = run(*args)
        assert (code, json.loads(out)["n_labels"]) == (0, 2)
        assert run(*args, "--columns", "node,group", "--comments", "%", "--delimiter", ";")[:2] == (code, out)

    def test_an_interrupt(self, run, karate, tmp_path, monkeypatch):
        def interrupted(self, relation, resume):
            raise KeyboardInterrupt

        monkeypatch.setattr(nf.EDRep, "fit", interrupted)
        code, out, err = run("embed", karate, "-o", tmp_path / "k.npz")
        assert (code, out) == (130, "")
        assert err.strip() == "nearfar: interrupted"
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk(self, run, fails, karate, tmp_path, monkeypatch):
        out = tmp_path / "k.npz"
        nf.Embedding(np.eye(2)).save(out)
        before = out.read_bytes()

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "k.npz")

        monkeypatch.setattr(os, "fsync", full)
        assert fails("embed", karate, "-o", out, "-q", *self.SMALL) == "nearfar: No space left on device: k.npz\n"
        assert out.read_bytes() == before

    @pytest.mark.slow
    def test_resume_begins_where_there_is_no_checkpoint_yet(self, run, karate, tmp_path):
        kept = tmp_path / "run.safetensors"
        args = ("embed", karate, *self.SMALL, "-q", "-o")
        assert run(*args, tmp_path / "a.npz", "--checkpoint", kept, "--resume")[0] == 0
        assert run(*args, tmp_path / "b.npz", "--checkpoint", kept, "--resume")[0] == 0
        assert run(*args, tmp_path / "c.npz")[0] == 0
        a, b, c = (nf.Embedding.load(tmp_path / f"{name}.npz") for name in "abc")
        assert a.equals(b)
        assert a.equals(c)

    def test_too_little_memory(self, fails, karate, tmp_path, monkeypatch):
        def big(self, relation, resume):
            raise MemoryError("Unable to allocate 1 PiB")

        monkeypatch.setattr(nf.EDRep, "fit", big)
        assert "not enough memory. Unable to allocate 1 PiB" in fails("embed", karate, "-o", tmp_path / "k.npz")

    def test_warnings_are_one_line(self, run, karate, tmp_path, monkeypatch):
        import warnings

        fit = nf.EDRep.fit

        def warn(self, relation, resume):
            warnings.warn("something was left out", NearfarWarning, stacklevel=1)
            return fit(self, relation)

        monkeypatch.setattr(nf.EDRep, "fit", warn)
        code, _, err = run("embed", karate, "-o", tmp_path / "k.npz", "-q", *self.SMALL)
        assert (code, err) == (0, "nearfar: warning: something was left out\n")


class TestProcess:
    @pytest.mark.slow
    def test_a_reader_that_leaves(self, tmp_path):
        path = tmp_path / "x.npz"
        nf.Embedding(np.ones((20_000, 1))).save(path)
        code = "import sys; from nearfar.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "similar", str(path), "5", "--topn", "19999"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == ""
        process.stderr.close()

    def test_a_terminal_that_knows_ascii_only(self, tmp_path, monkeypatch):
        path, terminal = tmp_path / "x.npz", io.TextIOWrapper(io.BytesIO(), "ascii")
        nf.Embedding(np.eye(2), ["a", "Zoë"]).save(path)
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["similar", str(path), "a"]) == 0
        terminal.flush()
        assert terminal.buffer.getvalue() == b"Zo\\xeb\t0.0000\n"


class TestMap:
    SMALL = ("--perplexity", 5, "--max-iter", 5, "--random-state", 1, "--n-jobs", 1)

    @pytest.fixture
    def vectors(self, tmp_path, rng):
        """Forty named vectors in two groups."""
        path = tmp_path / "vectors.vec"
        points = rng.normal(size=(40, 6)) + 9 * np.repeat(np.eye(2, 6), 20, axis=0)
        nf.Embedding(points.astype(np.float32), [f"word {i}" for i in range(40)]).save(path)
        return path

    def test_vectors_to_positions_and_picture(self, run, vectors, tmp_path):
        out, picture = tmp_path / "map.safetensors", tmp_path / "map.png"
        code, stdout, stderr = run("map", vectors, "-o", out, "--plot", picture, *self.SMALL)
        assert (code, stdout) == (0, "")
        assert f"{out} and {picture}: map of 40 vectors, cost " in stderr
        drawn = nf.Embedding.load(out)
        assert list(drawn.ids) == [f"word {i}" for i in range(40)]
        assert drawn.parameters["estimator"] == "TSNE"
        expected = nf.TSNE(perplexity=5, max_iter=5, random_state=1, n_jobs=1).fit(nf.Embedding.load(vectors).vectors)
        np.testing.assert_array_equal(drawn.vectors, expected.embedding_)
        assert picture.read_bytes().startswith(b"\x89PNG")

    @pytest.mark.slow
    def test_ids_that_are_text_are_written_on_the_picture(self, run, vectors, tmp_path, monkeypatch):
        """Of a file of vectors, of a table with names, with labels; integers are not."""
        asked, plain, table = [], nf.plots.scatter, tmp_path / "t.csv"

        def scatter(*args, words, **options):
            asked.append((words, len(plain(*args, words=words, **options).texts)))

        monkeypatch.setattr(nf.plots, "scatter", scatter)
        numbers, picture = tmp_path / "x.npz", tmp_path / "map.svg"
        nf.Embedding(nf.Embedding.load(vectors).vectors).save(numbers)
        rows = [f"{i},{i % 7},{i * i % 5},{'ab'[i % 2]},n{i}" for i in range(40)]
        table.write_text("\n".join(["u,v,w,kind,name", *rows]))
        for file, *options in (
            (vectors,),
            (numbers,),
            (table, "--labels", "kind", "--method", "umap", "--perplexity", 4),
        ):
            assert run("map", file, "--plot", picture, "--max-iter", 5, "--perplexity", 5, "-q", *options)[0] == 0
        assert [words for words, _ in asked] == [True, False, True]
        assert [count > 0 for _, count in asked] == [True, False, True]

    @pytest.mark.parametrize(("method", "recipe"), METHODS.items())
    def test_methods_are_those_of_the_library(self, run, vectors, tmp_path, monkeypatch, method, recipe):
        seen = []

        def fit(self, X):
            seen.append(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(getattr(nf, recipe), "fit", fit)
        options = self.SMALL if method != "mds" else self.SMALL[2:]
        options += ("--min-dist", 0.3) if method == "umap" else ()
        assert run("map", vectors, "-o", tmp_path / "map.npz", "--method", method, *options, "-q")[0] == 130
        (made,) = seen
        assert type(made) is getattr(nf, recipe)
        assert (made.max_iter, made.random_state, made.n_jobs) == (5, 1, 1)
        assert method == "mds" or made.perplexity == 5
        assert method != "umap" or made.min_dist == 0.3

    def test_stability_is_told_and_colours_the_page(self, run, vectors, tmp_path):
        out = tmp_path / "map.html"
        options = ("-o", out, "--stability", "--color", "stability", *self.SMALL)
        code, said, _ = run("map", vectors, *options, "--json")
        assert code == 0
        facts = json.loads(said)
        assert (facts["n"], facts["n_components"], facts["plot"]) == (40, 2, None)
        assert facts["parameters"]["perplexity"] == 5
        assert 0 <= facts["unstable"] <= 1
        assert len(facts["least_stable"]) == 10
        assert set(facts["least_stable"]) <= set(nf.Embedding.load(vectors).ids)
        assert 'id="block-stability"' in out.read_text("utf-8")
        _, _, told = run("map", vectors, *options)
        assert f"% of the points unstable, most {', '.join(facts['least_stable'][:3])}" in told


def test_ids_that_the_file_cannot_hold_are_refused_before_the_fit(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    integers = pa.array([Decimal(k) for k in (1, 2, 3)], pa.decimal128(38, 0))
    pq.write_table(pa.table({"source": integers, "target": [b"2", b"3", b"a"]}), tmp_path / "mixed.parquet")
    monkeypatch.setattr(nf.EDRep, "fit", None)
    assert main(["embed", str(tmp_path / "mixed.parquet"), "-o", str(tmp_path / "out.parquet")]) == 2
    told = capsys.readouterr().err
    assert "2 and '2' are different ids; there are 2 such pairs" in told
    assert "ids must be distinct as text" in told


def test_map_of_either_side(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    items = [f"item {k}" for k in range(20)]
    nf.Embedding(X, context_vectors=Y, context_ids=items).save(tmp_path / "x.npz")
    args = ["map", str(tmp_path / "x.npz"), "-o", str(tmp_path / "m.npz"), "--perplexity", "5", "--max-iter", "5"]
    assert main(args) == 0
    assert "map of 30 vectors, cost " in (said := capsys.readouterr().err)
    assert "(of 20 on the other side: --side context)" in said
    assert main([*args, "--side", "context"]) == 0
    assert nf.Embedding.load(tmp_path / "m.npz").ids.to_list() == items
    assert "other side" not in capsys.readouterr().err
