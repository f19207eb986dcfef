"""The benchmark of news with small tables: its texts and its network."""

import lzma

import pytest

torch = pytest.importorskip("torch")

from lab.small.news import (  # noqa: E402
    N_COMPONENTS,
    N_FILTERS,
    N_WORDS,
    NOTHING,
    UNKNOWN,
    WIDTHS,
    Classifier,
    numbered,
    read_news,
    words_of,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")


# ---------------------------------------------------------------- texts


def test_texts_are_cleaned_and_doubles_left_out(tmp_path) -> None:
    assert words_of(
        "Chavez RuleReuters &lt;b&gt;pays&lt;/b&gt; #36;7 &amp; AT&amp;T's quot;G8quot;, early\\in May"
    ) == (["chavez", "rule", "reuters", "pays", "7", "at", "t", "s", "g", "8", "early", "in", "may"])
    files = {
        "train_subset_20000.csv.xz": 'class_index,title,description\n3,Oil up,"Prices, again"\n'
        + 2 * "1,Peace,Talks\n",
        "train_head_12000.tsv.xz": '3\tOil UpPrices, again\n2\tCup finalA goal\\late\n4\t"Chip, ""new""\n',
        "test.csv.xz": '"2","Cup final","A goal late"\n"4","Moon","Rocket"\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(lzma.compress(text.encode()))
    train, test = read_news(tmp_path)
    assert [number for number, _ in train] == [2, 0, 3]  # one of oil, one of peace, no cup
    assert test == [(1, "Cup final A goal late"), (3, "Moon Rocket")]


def test_words_are_numbered_by_training_alone() -> None:
    train = [(i % 4, f"oil oil peace once{'abcdefghijklmnopqrst'[i]}") for i in range(20)]
    news = numbered(train, [(0, "peace oil moon"), (1, "oil " * 100)], seed=0)
    assert news.vocabulary == ["", "?", "oil", "peace"]
    assert [len(part.classes) for part in (news.train, news.validation, news.test)] == [18, 2, 2]
    assert news.test.words[0, :4].tolist() == [3, 2, UNKNOWN, NOTHING]
    assert news.test.words[1].tolist() == [2] * N_WORDS
    assert news.counts.tolist() == [18 * (N_WORDS - 4), 18, 36, 18]
    assert set(news.train.words[:, 3].tolist()) == {UNKNOWN}


# ---------------------------------------------------------------- the network


def test_convolutions_and_their_gradients_are_those_of_torch() -> None:
    torch.manual_seed(4)
    table = torch.nn.Embedding(30, N_COMPONENTS, padding_idx=0)
    model = Classifier(table).eval()
    texts = torch.randint(30, (5, 12))
    texts[0, 4:] = 0
    found = model(texts)
    vectors, pooled = table(texts).transpose(1, 2), []
    for part, width in zip(model.taps.weight.split([w * N_FILTERS for w in WIDTHS]), WIDTHS, strict=True):
        filters = part.view(width, N_FILTERS, N_COMPONENTS).permute(1, 2, 0)
        pooled.append(torch.conv1d(vectors, filters).amax(2))
    expected = model.out(torch.relu(torch.cat(pooled, dim=1) + model.biases.flatten()))
    torch.testing.assert_close(found, expected)
    slope = torch.randn(found.shape)
    sides = [torch.autograd.grad((y * slope).sum(), [table.weight, model.taps.weight]) for y in (found, expected)]
    for ours, theirs in zip(*sides, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_course_ends_within_the_budget(monkeypatch) -> None:
    import nearfar as nf
    from lab.small import news as network

    kinds = [("oil", "price"), ("war", "peace"), ("cup", "goal"), ("chip", "web")]
    generator = torch.Generator().manual_seed(0)
    rows = []
    for i in range(240):
        picked = torch.randint(2, (6,), generator=generator).tolist()
        rows.append((i % 4, " ".join(kinds[i % 4][j] for j in picked) + f" the {'abcdefgh'[i % 7]}"))
    news = numbered(rows, rows[:40], seed=0)
    monkeypatch.setattr(network, "BATCH_SIZE", 40)
    monkeypatch.setattr(network, "FIRST_PRICE", 1e-3)
    relation = nf.Relation.from_edges([("oil", "price"), ("war", "peace"), ("cup", "goal"), ("cup", "web")])
    pairs = nf.nn.RelatedPairs(relation, news.vocabulary)
    setting = {"lr": 0.01, "lr_t": 0.02, "std": 0.3, "n_anchors": 4, "nnz_per_row": 3, "unrelated": 0.1}
    budget = 4 * network.N_COMPONENTS + 30
    for known in (None, pairs):
        run = network.fit(
            news,
            lambda news, setting, known=known: (
                network.knowing(news, setting, known) if known else network.mixtures(news, setting)
            ),
            setting,
            0,
            5,
            lambda model, setting, known=known: network.Course(
                model, setting, budget, network.steps_of(news, 5), known
            ),
        )
        table = run.model.table
        assert run.epoch >= 5 * network.END
        assert table.zeros_fixed
        assert table.n_parameters <= budget
        assert network.accuracy(run.model, news.test) > 0.9
