"""Link prediction and node classification: no leakage, a connected rest, known answers, all forms of labels."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csgraph, csr_array, random_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.evaluate import baselines, graphs, link_prediction, node_classification


@pytest.fixture(scope="module")
def club():
    """A real network with weights and names."""
    return nf.Relation.from_edges(nx.relabel_nodes(nx.karate_club_graph(), lambda node: f"m{node}"))


class Recorder:
    """A method that knows the whole graph, keeps what it was given, and embeds by rows of some matrix."""

    def __init__(self, vectors):
        self.vectors, self.seen = vectors, []

    def __call__(self, relation):
        self.seen.append(relation)
        return self.vectors


def edges_of(relation):
    A = relation.to_scipy()
    return {(int(i), int(j)) for i, j in zip(*A.nonzero(), strict=True) if i < j}


@pytest.fixture
def asked(monkeypatch):
    """What pairs are scored, of which vectors: a list that grows."""
    parts, real = [], graphs.score_pairs
    monkeypatch.setattr(graphs, "score_pairs", lambda *given: parts.append(given) or real(*given))
    return parts


class TestLinkPrediction:
    def test_held_out_edges_are_hidden_and_the_rest_stays_connected(self, club):
        method = Recorder(np.eye(34))
        found = link_prediction(club, method, held_out=0.3, n_repeats=3, random_state=0)
        whole = edges_of(club)
        assert found.n_edges == len(whole) == 78
        assert found.n_held_out == round(0.3 * 78)
        title, head, *rows = repr(found).splitlines()
        assert title == "Link prediction: 23 of 78 edges held out"
        assert head.split() == ["feature", "AUC", "AP"]
        low, high = found.auc_interval["dot"]
        assert rows[-1].split()[:5] == ["dot", f"{found.auc['dot']:.4f}", f"({low:.4f}", "to", f"{high:.4f})"]
        for relation in method.seen:
            A = relation.to_scipy()
            assert relation.row_ids == club.row_ids
            assert edges_of(relation) < whole
            assert len(whole - edges_of(relation)) == found.n_held_out
            assert abs(A - A.T).max() == 0
            assert csgraph.connected_components(A)[0] == 1
            kept = A.nonzero()
            np.testing.assert_array_equal(A[kept], club.to_scipy()[kept])  # weights stay
        assert edges_of(method.seen[0]) != edges_of(method.seen[1])

    def test_vectors_that_know_the_answer_are_perfect_and_random_ones_at_chance(self, rng):
        # An edge within a clique, none across: the indicator of the clique predicts all, and noise nothing.
        block = np.arange(60) % 3
        A = csr_array((block[:, None] == block) & ~np.eye(60, dtype=bool), dtype=float)
        known = link_prediction(A, Recorder(np.eye(3)[block]), n_repeats=1, random_state=0)
        for feature in ("hadamard", "l1", "l2", "dot"):
            assert known.auc[feature] > 0.97
            assert known.ap[feature] > 0.97
        noise = link_prediction(A, Recorder(rng.normal(size=(60, 3))), n_repeats=4, random_state=0)
        assert all(0.35 < auc < 0.65 for auc in noise.auc.values())
        assert noise.auc_interval["l2"][0] < noise.auc["l2"] < noise.auc_interval["l2"][1]
        assert noise.repeats["auc"]["l2"].shape == (4,)
        assert noise.auc["l2"] == pytest.approx(noise.repeats["auc"]["l2"].mean())

    @pytest.mark.parametrize("listed", [2**22, 0])
    def test_negatives_are_no_edges_of_the_whole_graph_and_never_shared(self, club, asked, monkeypatch, listed):
        monkeypatch.setattr(graphs, "_LISTED", listed)  # 0: drawn, as in a large graph
        method = Recorder(np.eye(34))
        link_prediction(club, method, features=("l1",), n_repeats=2, random_state=0)
        whole = edges_of(club)
        for (_, (train, train_is_edge), (test, test_is_edge), *_), relation in zip(asked, method.seen, strict=True):
            sets = [set(map(tuple, pairs[kind].tolist())) for pairs, is_edge in ((train, train_is_edge),
                    (test, test_is_edge)) for kind in (is_edge, ~is_edge)]  # fmt: skip
            assert all(len(a & b) == 0 for i, a in enumerate(sets) for b in sets[:i])
            assert sum(map(len, sets)) == len(train) + len(test)  # no pair twice
            assert (sets[0] | sets[2]) == whole - edges_of(relation)
            assert not (sets[1] | sets[3]) & whole
            assert all(i < j for pairs in sets for i, j in pairs)
            assert len(sets[0]) == len(sets[1])
            assert len(sets[2]) == len(sets[3])

    def test_scores_are_those_of_a_classifier_made_by_hand(self, rng):
        X = rng.normal(size=(30, 4))
        pairs = np.array([(i, j) for i in range(30) for j in range(i + 1, 30)])
        is_edge = (X[pairs[:, 0]] * X[pairs[:, 1]]).sum(axis=1) + rng.normal(size=len(pairs)) > 0.5
        half = len(pairs) // 2
        train, test = pairs[:half], pairs[half:]
        by_hand = {
            "hadamard": lambda a, b: a * b,
            "l1": lambda a, b: abs(a - b),
            "l2": lambda a, b: (a - b) ** 2,
            "average": lambda a, b: (a + b) / 2,
            "dot": lambda a, b: (a * b).sum(axis=1, keepdims=True),
        }
        for name, feature in by_hand.items():
            F, G = (feature(X[p[:, 0]], X[p[:, 1]]) for p in (train, test))
            scaler = StandardScaler().fit(F)
            model = LogisticRegression(max_iter=1000).fit(scaler.transform(F), is_edge[:half])
            chance = model.predict_proba(scaler.transform(G))[:, 1]
            auc, ap = graphs.score_pairs(X, (train, is_edge[:half]), (test, is_edge[half:]), name)
            assert auc == pytest.approx(roc_auc_score(is_edge[half:], chance), abs=1e-3)
            assert ap == pytest.approx(average_precision_score(is_edge[half:], chance), abs=1e-3)
            more = [np.column_stack((feature(X[p[:, 0]], X[p[:, 1]]), X[p, 0].sum(axis=1))) for p in (train, test)]
            scaler = StandardScaler().fit(more[0])
            model = LogisticRegression(max_iter=1000).fit(scaler.transform(more[0]), is_edge[:half])
            wanted = roc_auc_score(is_edge[half:], model.predict_proba(scaler.transform(more[1]))[:, 1])
            auc, _ = graphs.score_pairs(X, (train, is_edge[:half]), (test, is_edge[half:]), name, X[:, 0])
            assert auc == pytest.approx(wanted, abs=1e-3)

    def test_degrees_say_what_vectors_of_one_length_cannot(self, rng):
        ends = np.arange(200) ** 2 / 200**2  # hubs meet hubs, and nothing else counts
        A = np.triu(rng.random((200, 200)) < 0.6 * ends[:, None] * ends, 1)
        A = csr_array((A | A.T).astype(np.float32))
        kept = np.flatnonzero(np.diff(A.indptr))
        method = Recorder(rng.normal(size=(len(kept), 3)))
        alone, both = (
            link_prediction(A[kept][:, kept], method, features=("dot",), n_repeats=2, random_state=0, degrees=degrees)
            for degrees in (False, True)
        )
        assert alone.auc["dot"] < 0.6 < 0.75 < both.auc["dot"]

    def test_baselines_stand_beside_the_features(self, club):
        how = {"features": ("dot",), "n_repeats": 2, "random_state": 0}
        plain = link_prediction(club, Recorder(np.eye(34)), **how)
        found = link_prediction(club, Recorder(np.eye(34)), baselines=True, **how)
        assert list(found.auc) == ["dot", "degrees", "preferential attachment", "Adamic-Adar", "L3"]
        assert found.auc["dot"] == plain.auc["dot"]
        assert found.repeats["ap"]["L3"].shape == (2,)
        assert [line.split()[0] for line in repr(found).splitlines()[2:]] == [name.split()[0] for name in found.auc]
        # One draw by hand; weights do not count.
        graph = graphs.undirected("test", club)
        left, (train, test) = graphs.hide(graph, 39, 2, np.random.default_rng(1))
        degrees, attachment, common, paths = graphs.score_baselines(left, train, test)
        A = csr_array((left.to_scipy() > 0).astype(float))
        k = A.sum(axis=1)
        u, v = test[0].T
        assert attachment[0] == pytest.approx(roc_auc_score(test[1], k[u] * k[v]))
        assert paths[1] == pytest.approx(average_precision_score(test[1], baselines.l3(A)(np.arange(34))[u, v]))
        assert common[0] == pytest.approx(roc_auc_score(test[1], baselines.adamic_adar(A)(np.arange(34))[u, v]))
        F, G = (np.sort(np.log1p(k)[pairs], axis=1) for pairs in (train[0], test[0]))  # the smaller and the larger
        chance = LogisticRegression(C=1e3, max_iter=1000).fit(F, train[1]).decision_function(G)
        assert degrees[0] == pytest.approx(roc_auc_score(test[1], chance), abs=0.02)

    def test_degrees_are_those_of_the_edges_that_are_left(self, club, asked):
        method = Recorder(np.eye(34))
        link_prediction(club, method, features=("dot",), n_repeats=1, random_state=0, degrees=True)
        np.testing.assert_allclose(asked[0][-1][:, 0], np.log1p((method.seen[0].to_scipy() > 0).sum(axis=1)))

    def test_a_base_measure_counts_without_being_told(self, club, asked):
        of_id = {}

        def method(left):  # in another order than the relation's, one node without any
            ids = list(left.row_ids)[::-1]
            of_id.update(zip(ids, [0.0, *range(1, len(ids))], strict=True))
            return nf.Embedding(np.eye(len(ids)), ids, base_measure=[of_id[one] for one in ids])

        found = link_prediction(club, method, features=("dot",), n_repeats=1, random_state=0, degrees=True)
        wanted = [np.log(max(of_id[one], 1.0)) for one in club.row_ids]
        np.testing.assert_allclose(asked[0][-1][:, 0], wanted)
        assert asked[0][-1].shape[1] == 2
        assert np.isfinite(found.auc["dot"])
        alone = nf.EDRep(task="links", random_state=0, n_jobs=1)
        how = {"features": ("dot",), "n_repeats": 1, "random_state": 0}
        other = link_prediction(club, lambda left: alone.fit(left).embedding_, **how)
        assert link_prediction(club, alone, **how).auc["dot"] > other.auc["dot"]

    def test_takes_an_estimator_or_a_callable_and_the_seed_repeats(self, club):
        est = nf.EDRep(n_components=4, n_epochs=5, random_state=0, n_jobs=1)
        how = {"features": ("dot",), "n_repeats": 2}
        one = link_prediction(club, est, **how, random_state=3)
        assert not hasattr(est, "embedding_")
        two = link_prediction(club, lambda graph: est.fit(graph), **how, random_state=3)
        three = link_prediction(club, lambda graph: est.fit(graph).vectors_, **how, random_state=3)
        assert one.auc == two.auc == three.auc
        assert link_prediction(club, est, **how, random_state=4).auc != one.auc

    def test_rows_are_found_by_their_ids(self, club, rng):
        X, order = rng.normal(size=(34, 3)), rng.permutation(34)
        shuffled = nf.Embedding(X[order], [club.row_ids[i] for i in order])
        one, two = (link_prediction(club, Recorder(v), n_repeats=1, random_state=0) for v in (X, shuffled))
        assert one.ap == pytest.approx(two.ap, abs=1e-6)

    def test_several_components_stay_as_they_are(self, rng):
        A = csr_array(nx.to_scipy_sparse_array(nx.disjoint_union(nx.complete_graph(9), nx.complete_graph(8))))
        method = Recorder(rng.normal(size=(17, 2)))
        link_prediction(A, method, features=("dot",), n_repeats=2, random_state=0)
        one = link_prediction(A.toarray(), method, features=("dot",), n_repeats=1, random_state=0)
        assert one.auc_interval == dict.fromkeys(one.auc)  # one repeat has none
        assert all(csgraph.connected_components(seen.to_scipy())[0] == 2 for seen in method.seen)

    def test_self_loops_and_directions_are_dropped(self, rng):
        A = random_array((40, 40), density=0.2, random_state=rng, format="csr")
        method = Recorder(rng.normal(size=(40, 2)))
        with pytest.warns(NearfarWarning, match="directions are dropped"):
            found = link_prediction(A, method, n_repeats=1, random_state=0)
        both = ((A + A.T) != 0).toarray()
        assert found.n_edges == np.triu(both, 1).sum()
        assert method.seen[0].to_scipy().diagonal().sum() == 0

    def test_a_graph_with_few_spare_edges_says_so(self):
        sparse = nx.to_scipy_sparse_array(nx.circulant_graph(30, [1, 7]))
        with pytest.warns(NearfarWarning, match="31 of 60 edges can be held out"):
            found = link_prediction(csr_array(sparse), Recorder(np.eye(30)), held_out=0.9, n_repeats=1)
        assert found.n_held_out == 31


class TestNodeClassification:
    def test_separable_labels_are_found_and_noise_is_not(self, rng):
        labels = rng.random((300, 4)) < 0.4
        labels[:, 0] |= ~labels.any(axis=1)
        found = node_classification(labels * 4.0 + 0.1 * rng.normal(size=(300, 4)), labels, n_repeats=1, random_state=0)
        assert found.micro[0.5] == pytest.approx(1, abs=0.01)
        assert found.macro[0.5] == pytest.approx(1, abs=0.01)
        assert list(found.micro) == [0.1, 0.5, 0.9]
        noise = node_classification(rng.normal(size=(300, 4)), labels, fractions=0.5, n_repeats=4, random_state=0)
        assert noise.micro[0.5] < 0.7
        low, high = noise.micro_interval[0.5]
        assert low < noise.micro[0.5] < high
        assert noise.repeats["micro"][0.5].shape == (4,)

    def test_scores_are_those_of_plain_loops(self, rng):
        X, labels = rng.normal(size=(80, 3)), rng.random((80, 3)) < 0.4
        labels[:, 1] |= X[:, 0] > 0
        labels[~labels.any(axis=1), 0] = True
        order = rng.permutation(80)
        train, test = order[:40], order[40:]
        chances = np.stack([LogisticRegression(solver="liblinear").fit(X[train], labels[train, k])
                            .predict_proba(X[test])[:, 1] for k in range(3)], axis=1)  # fmt: skip
        guess = np.zeros_like(labels[test])
        for row, count in enumerate(labels[test].sum(axis=1)):
            guess[row, np.argsort(-chances[row])[:count]] = True
        micro, macro = graphs.score_split(X, labels, train, test)
        assert micro == pytest.approx(f1_score(labels[test], guess, average="micro"))
        assert macro == pytest.approx(f1_score(labels[test], guess, average="macro"))

    def test_labels_in_any_form_give_the_same(self, rng):
        ids = [f"n{i}" for i in range(60)]
        groups = [("tea", "rum", "gin")[i % 3] for i in range(60)]
        emb = nf.Embedding(np.eye(3)[np.arange(60) % 3] + 0.5 * rng.normal(size=(60, 3)), ids)
        order = rng.permutation(60)
        forms = {
            "list": groups,
            "array": np.array(groups),
            "lists": [[group] for group in groups],
            "indicators": np.array(groups)[:, None] == np.unique(groups),
            "sparse": csr_array(np.array(groups)[:, None] == np.unique(groups)),
            "mapping": {ids[i]: groups[i] for i in order},
            "mapping of sets": {ids[i]: {groups[i]} for i in order},
            "series by id": pd.Series(groups, index=ids).iloc[order],
            "column of polars": pl.Series(groups),
        }
        given = {"fractions": 0.5, "n_repeats": 1, "random_state": 0}
        found = {name: node_classification(emb, labels, **given) for name, labels in forms.items()}
        assert len({str(result) for result in found.values()}) == 1
        assert 0.5 < found["list"].micro[0.5] < 1
        assert (found["list"].n_scored, found["list"].n_labels) == (60, 3)
        plain = node_classification(emb.vectors, groups, **given)
        assert plain.micro == found["list"].micro

    def test_a_series_that_repeats_ids_has_several_labels(self, rng):
        emb = nf.Embedding(rng.normal(size=(20, 2)), range(20))
        table = pd.Series(["a", "b"] * 10 + ["c"], index=[*range(20), 3])
        by_lists = {i: ["a", "b"][i % 2 : i % 2 + 1] + ["c"] * (i == 3) for i in range(20)}
        how = {"fractions": 0.5, "n_repeats": 2, "random_state": 0}
        one, two = (node_classification(emb, labels, **how) for labels in (table, by_lists))
        assert one.micro == two.micro
        assert one.n_labels == 3

    def test_nodes_without_a_label_are_left_out(self, rng):
        X = rng.normal(size=(50, 3))
        labels = np.array([None if i % 5 == 0 else "ab"[i % 2] for i in range(50)], dtype=object)
        kept = np.flatnonzero(np.arange(50) % 5)
        how = {"fractions": 0.5, "n_repeats": 2, "random_state": 0}
        one = node_classification(X, labels, **how)
        two = node_classification(X[kept], labels[kept], **how)
        assert one.n_scored == 40
        assert one.micro == two.micro
        floats = [np.nan if label is None else float(label == "a") for label in labels]
        assert node_classification(X, floats, **how).n_scored == 40

    def test_label_spreading_is_told_beside_it(self, rng):
        block = np.arange(60) % 3
        A = ((block[:, None] == block) & ~np.eye(60, dtype=bool)).astype(float)
        emb = nf.Embedding(rng.normal(size=(60, 3)), [f"n{i}" for i in range(60)])
        order = rng.permutation(60)
        graph = nf.Relation.from_matrix(A[order][:, order], [f"n{i}" for i in order])  # by id
        how = {"fractions": (0.2, 0.5), "n_repeats": 3, "random_state": 0}
        found = node_classification(emb, block, relation=graph, **how)
        told = found.baselines["label spreading"]
        assert (told.micro[0.5], told.n_scored, told.n_labels) == (1.0, 60, 3)
        assert found.micro == node_classification(emb, block, **how).micro
        assert found.micro[0.5] < 0.6
        assert repr(found).splitlines()[4].startswith("By label spreading. Node classification: 3 labels")
        # Noise in the graph, one split by hand: the label with the largest share.
        A = np.triu(A + (rng.random((60, 60)) < 0.3), 1)
        train = np.random.default_rng(0).permutation(60)[:12]
        F = baselines.spread_labels(csr_array(A + A.T), train, np.eye(3)[block[train]])
        test = np.setdiff1d(np.arange(60), train)
        told = node_classification(emb.vectors, block, relation=A, fractions=0.2, n_repeats=1, random_state=0)
        expected = (F[test].argmax(axis=1) == block[test]).mean()
        assert told.baselines["label spreading"].micro[0.2] == pytest.approx(expected)


class TestCommands:
    @pytest.fixture
    def files(self, tmp_path):
        club = nx.karate_club_graph()
        lines = [f"m{u},m{v}" for u, v in club.edges]
        (tmp_path / "club.csv").write_text("\n".join(["source,target", *lines]))
        relation = nf.Relation.from_edges(str(tmp_path / "club.csv"))
        nf.EDRep(4, random_state=0, n_jobs=1).fit(relation.random_walk(3)).vectors_.save(tmp_path / "club.npz")
        labels = [f"m{node},{data['club']}" for node, data in club.nodes(data=True)]
        (tmp_path / "labels.csv").write_text("\n".join(["id,label", *labels]))
        return tmp_path

    def test_links(self, files, shown):
        args = ["evaluate", "links", str(files / "club.csv"), "--n-components", "4", "--n-repeats", "1"]
        args += ["--random-state", "0", "--feature", "dot", "--feature", "l2", "--held-out", "0.4", "--degrees"]
        args += ["--baselines"]
        said = json.loads(shown(*args, "--json"))
        assert (said["n_edges"], said["n_held_out"]) == (78, 31)
        assert [row["feature"] for row in said["scores"]][:4] == ["dot", "l2", "degrees", "preferential attachment"]
        relation = nf.Relation.from_edges(str(files / "club.csv"))
        by_hand = link_prediction(
            relation,
            lambda left: nf.EDRep(4, random_state=0).fit(left.random_walk(3)),
            held_out=0.4,
            features=("dot", "l2"),
            degrees=True,
            baselines=True,
            n_repeats=1,
            random_state=0,
        )
        assert {row["feature"]: row["auc"] for row in said["scores"]} == by_hand.auc

    def test_labels(self, files, shown):
        args = ["evaluate", "labels", str(files / "club.npz"), str(files / "labels.csv"), "--random-state", "0"]
        args += ["--n-repeats", "1"]
        said = json.loads(shown(*args, "--fraction", "0.5", "--json"))
        assert (said["n_scored"], said["n_labels"]) == (34, 2)
        assert said["scores"][0]["micro"] > 0.8
        assert [line.split("\t")[0] for line in shown(*args).splitlines()] == ["0.1", "0.5", "0.9"]
