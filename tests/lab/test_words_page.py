"""What the page of benchmarks says about words, from made-up results."""

from result_files import page, write_results


def test_ratios_of_medians(tmp_path) -> None:
    def record(source: str, method: str, trial: int, seconds: float) -> dict:
        key = {"run": 0, "source": source, "method": method, "trial": trial}
        return {**key, "seconds": seconds, "megabytes_per_second": 100 / seconds, "bytes": 2**21, "n_words": 9}

    records = [record("file", "nearfar", t, s) for t, s in enumerate((1.0, 2.0, 9.0))]
    records += [
        record("file", "gensim", 0, 10.0),
        record("lists", "nearfar", 0, 4.0),
        record("lists", "gensim", 0, 8.0),
    ]
    records += [record("file, xz", "nearfar", 0, 5.0)]
    write_results(tmp_path, "text", records)
    text, bars = page(tmp_path)
    assert bars["encoding of text, from a file"][1:] == ["5.0 times", "yes"]
    assert bars["encoding of text, from lists"][1:] == ["2.0 times", "**no**"]
    assert "| file | nearfar | 3 | 2.00 s (1.00 s – 9.00 s) | 50 MB/s | 2 MiB |" in text
    assert "| file, xz | nearfar | 1 |" in text


def test_speed_and_quality_of_word_vectors(tmp_path) -> None:
    def record(method: str, n_epochs: int, speed: float, rho: float) -> dict:
        sets = dict.fromkeys(("wordsim", "simlex", "men"), rho)
        intervals = {f"{name}_interval": [rho - 0.02, rho + 0.02] for name in sets}
        key = {"run": 0, "method": method, "source": "file", "n_epochs": n_epochs, "trial": 0}
        speeds = {"words_per_second": speed, "words_per_second_with_encoding": speed / 2, "bytes": 2**21}
        return {**key, **speeds, **sets, **intervals, "analogies": 0.1}

    records = [record("nearfar", 1, 5e6, 0.30), record("gensim", 1, 1e6, 0.31)]
    records += [record("nearfar", 5, 3e6, 0.40), record("gensim", 5, 1e6, 0.43)]
    records += [record("nearfar, noise per pair", 1, 2e6, 0.3)]
    write_results(tmp_path, "words", records)
    text, bars = page(tmp_path)
    assert bars["skip-gram from a file, training alone"][1:] == ["5.0 and 3.0 times", "**no**"]
    assert bars["skip-gram from lists, with encoding"][1:] == ["not measured", "–"]
    assert bars["skip-gram, noise drawn for each pair"][1:] == ["2.0 times", "yes"]
    one = "wordsim 0.300 / 0.310, simlex 0.300 / 0.310, men 0.300 / 0.310, analogies 0.100 / 0.100"
    assert bars["skip-gram quality, 1 epoch"][1:] == [one, "yes"]
    assert bars["skip-gram quality, 5 epochs"][2] == "**no**"

    def in_turn(method: str, slower: float, rho: float) -> list[dict]:
        """Fits in turn, with 1 and 2 threads, of which another program slowed the first down."""
        return [
            {**record(f"{method}, {way}", 1, 1.0, rho), "workers": workers, "trial": trial,
             "seconds": seconds / workers, "processor_seconds": seconds}
            for trial, busy in enumerate((1.5, 1.0))
            for workers in (1, 2)
            for way, seconds in (("deterministic", 10 * slower), ("without locks", 10 * busy))
        ]  # fmt: skip

    measured = records
    records = measured + in_turn("nearfar", 1.2, 0.3)
    write_results(tmp_path, "words", records)
    text, bars = page(tmp_path)
    assert bars["skip-gram, deterministic"][1:] == ["1.20 times with 1, 1.20 times with 2 threads", "yes"]
    assert "| deterministic | 2 | 6.00 s | 12.00 s | 0.300 | 0.300 | 0.300 | 0.100 |" in text
    assert "| without locks | 1 | 10.00 s | 10.00 s | 0.300 |" in text
    assert "| 1 | file | nearfar, deterministic |" not in text
    assert (
        bars["Adam, deterministic, of a short text"][1] == bars["skip-gram by Adam, deterministic"][1] == "not measured"
    )
    records += in_turn("nearfar by Adam", 1.5, 0.2)
    write_results(tmp_path, "words", records)
    text, bars = page(tmp_path)
    assert bars["skip-gram by Adam, deterministic"][1:] == ["1.50 times with 1, 1.50 times with 2 threads", "**no**"]
    assert "| by Adam, without locks | 2 | 5.00 s | 10.00 s | 0.200 |" in text
    assert "| 1 | file | nearfar by Adam" not in text
    records += [
        {"run": 0, "method": f"SkipGram by Adam, {way}", "source": "a million words", "n_epochs": 1, "trial": trial,
         "processor_seconds": seconds, "loss": 0.5}
        for trial, slower in enumerate((1.1, 1.25, 1.4))
        for way, seconds in (("without locks", 2.0), ("deterministic", 2 * slower))
    ]  # fmt: skip
    write_results(tmp_path, "words", records)
    text, bars = page(tmp_path)
    assert bars["Adam, deterministic, of a short text"][1:] == ["SkipGram 1.25 times (1.10 to 1.40)", "yes"]
    assert "| SkipGram by Adam | 2.00 s | 2.50 s | 1.25 | 1.10 to 1.40, 3 pairs | 0.500 | 0.500 |" in text
    assert "| 1 | a million words |" not in text
    records[-3]["processor_seconds"] = records[-5]["processor_seconds"] = 2.7
    write_results(tmp_path, "words", records)
    assert page(tmp_path)[1]["Adam, deterministic, of a short text"][2] == "**no**"
    write_results(tmp_path, "words", measured + in_turn("nearfar", 1.35, 0.3))
    text, bars = page(tmp_path)
    assert bars["skip-gram, deterministic"][2] == "**no**"
    assert "| 5 | file | gensim | 1.00 M | 0.50 M | 0.430 | 0.430 | 0.430 | 0.100 | 2 MiB |" in text


def test_memory_is_held_against_its_bound(tmp_path) -> None:
    def record(copies: int, peak: float) -> dict:
        facts = {"n_tokens": 10**7 * copies, "encoding_seconds": 1.5, "seconds": 20.0, "text_mib": 95 * copies}
        return {"run": 0, "copies": copies, **facts, "encoding_mib": 100.0, "training_mib": peak, "bound_mib": 1100.0}

    target = "memory of encoding and training, text of any length"
    write_results(tmp_path, "word_memory", [record(1, 150.0), record(16, 160.0)])
    text, bars = page(tmp_path)
    assert bars[target][1:] == ["at most 160 MiB, of texts up to 1,520 MiB", "yes"]
    assert "| 1,520 MiB | 160.0 M | 1.50 s | 20.00 s | 100 MiB | 160 MiB | 1,100 MiB |" in text
    write_results(tmp_path, "word_memory", [record(1, 1101.0)])
    assert page(tmp_path)[1][target][2] == "**no**"


def test_word2dm_against_the_best_batch(tmp_path) -> None:
    def record(method: str, speed: float, **more) -> dict:
        key = {"run": 0, "part": "speed", "size": 17, "optimizer": "sgd", "trial": 0, "method": method}
        return {**key, "pairs_per_second": speed, **more}

    records = [record("nearfar, noise per pair", 600e3), record("nearfar, noise shared", 2e6)]
    records += [record("PyTorch", speed, batch=batch) for batch, speed in ((256, 50e3), (1024, 100e3), (4096, 90e3))]
    curves = {"loss": [0.5, 0.4321], "tiny": [0, 0.01], "orthogonal": [0, 0.2], "entropy": [0.1, 0.9, 1.5]}
    sets = {"wordsim": 0.3, "simlex": 0.1, "men": 0.2, "entropy_auc": 0.75}
    records.append({"run": 0, "part": "pull", "size": 10, "setting": "default", **curves, **sets})
    write_results(tmp_path, "word2dm", records)
    text, bars = page(tmp_path)
    assert bars["Word2DM 17 x 17, SGD, pairs/s, noise per pair"][1:] == ["6.0 times", "yes"]
    assert bars["Word2DM 17 x 17, Adam, pairs/s, noise per pair"][1:] == ["not measured", "–"]
    assert "| 17 x 17 | SGD | 600 k | 2,000 k | 100 k | 1024 |" in text
    assert "| 10 x 10 | default | 0.432 | 1 % | 20 % | 0.300 | 0.100 | 0.200 | 0.10 – 0.90 – 1.50 | 0.75 |" in text


def test_models_of_words(tmp_path) -> None:
    def record(part: str, method: str, **fields) -> dict:
        return {"run": 0, "part": part, "method": method, **fields}

    records = [record("tune", "SkipGram", learning_rate=0.1, n_epochs=5, score=0.3)]
    for trial, score in enumerate((0.2, 0.4)):
        of_trial = {"trial": trial, "loss": 0.37, "n_numbers": 17}
        records.append(record("words", "SkipGram, 17", set="men", score=score, **of_trial))
        shares = {"auc": score, "corrected_auc": 0.7, "correlation": -0.5, "corrected_correlation": 0.0}
        interval = [0.5 + score / 10, 0.8 + score / 10]
        records.append(record("homonyms", "Word2DM", trial=trial, **shares, interval=interval, n_covered=99, n=110))
    told = {"ML2008": (0.1, [0.02, 0.3]), "GS2011": (0.2, [0.01, 0.3]), "GS2012": (0.1, [-0.2, 0.3])}
    for name, (difference, limits) in told.items():
        common = {"set": name, "interval": [0.1, 0.4], "n_covered": 199, "n_verbs": 20, "against": "SkipGram"}
        chosen = {"chosen": ["mult", 0.55], "all_items": {"mult": [0.1, 0.2], "phaser": [0.3, 0.3]}}
        same = {"difference": 0.0, "difference_interval": [0.0, 0.0]}
        records.append(record("phrases", "SkipGram", told=[0.1, 0.2], **common, **chosen, **same))
        more = {"difference": difference, "difference_interval": limits}
        records.append(record("phrases", "Word2DM", told=[0.3, 0.3], **common, **chosen, **more))
    records.append(record("senses", "Word2DM", set="a kind", trial=0, separation=0.6, chance=0.2, recovered=0.3))
    write_results(tmp_path, "word_models", records)
    text, bars = page(tmp_path)
    what = "phrases: density matrices against skip-gram, compositions chosen on one half"
    said = "Word2DM: +0.100 [0.02, 0.30] on ML2008, +0.200 [0.01, 0.30] on GS2011, +0.100 [-0.20, 0.30] on GS2012"
    assert bars[what][1:] == [said, "yes"]
    assert "| SkipGram, 17 | 17 | 2 | 0.370 | – | 0.300 ± 0.141 | – | – | – | – |" in text
    assert "| ML2008 | SkipGram | 2 | mult (55%) | 0.150 ± 0.071 [0.10, 0.40] | – | 199 | 20 |" in text
    told_row = "| GS2012 | Word2DM | 2 | mult (55%) | 0.300 ± 0.000 [0.10, 0.40] | +0.100 [-0.20, 0.30] | 199 | 20 |"
    assert told_row in text
    assert "| Word2DM | phaser | 0.300 (0.30 – 0.30) | 0.300 (0.30 – 0.30) | 0.300 (0.30 – 0.30) | – | – |" in text
    homonyms = "| 0.300 ± 0.141 | 0.700 ± 0.000 [0.52, 0.84] | -0.500 ± 0.000 | 0.000 ± 0.000 | 99 |"
    assert f"| Word2DM | 2 {homonyms}" in text
    assert "| Word2DM | a kind | 0.60 | 0.20 | 0.30 | – | – | – | – |" in text
    records = [r for r in records if r.get("set") != "ML2008"]
    write_results(tmp_path, "word_models", records)
    assert page(tmp_path)[1][what][2] == "**no**"
    write_results(tmp_path, "word_models", records[:1])
    assert page(tmp_path)[1][what][1:] == ["not measured", "–"]


def test_starts_are_means_over_trials(tmp_path) -> None:
    def record(start: str, trial: int, men: float) -> dict:
        return {"run": 0, "start": start, "trial": trial, "n_words": 9, "loss": 0.4 + men, "men": men, "entropy": 1.5}

    write_results(tmp_path, "warm_start", [record("random", 0, 0.1), record("random", 1, 0.3), record("again", 0, 0.2)])
    text, _ = page(tmp_path)
    assert "| random | 2 | 0.6000 | 1.50 | 0.200 ± 0.141 |" in text
    assert "| again | 1 | 0.6000 | 1.50 | 0.200 |" in text


def test_the_learning_rate_against_the_best_fixed_one(tmp_path) -> None:
    def record(text: str, rate: object, seed: int, mean: float, **more) -> dict:
        key = {"run": 0, "method": "nearfar", "text": text, "n_epochs": 5, "rate": rate, "seed": seed, "seconds": 1.0}
        covered = {name: 100 for name in more if name.isupper()}
        of_sets = {"mean": mean, "MEN-TR-3k": mean, "covered": covered, **more}
        return {**key, "chosen": 0.07 if rate == "auto" else rate, **of_sets}

    records = [record("1M", rate, seed, 0.3 + rate) for rate in (0.025, 0.1) for seed in range(3)]
    records += [record("1M", "auto", seed, 0.395) for seed in (1, 2)]
    records += [record("python", rate, 0, 0.2, held_out=0.45) for rate in (0.1, "auto")]
    sets = {"WS-353-ALL": 0.6, "analogies": 0.3}
    records += [record("17M", 0.025, 0, 0.5, **sets), record("17M", "auto", 0, 0.52, **{**sets, "analogies": 0.28})]
    peers = {"nearfar": ("auto", 0.41), "fastText": ("its default", 0.25)}
    records += [{**record("2M", rate, 0, men), "method": name, "n_epochs": 2} for name, (rate, men) in peers.items()]
    write_results(tmp_path, "learning_rates", records)
    text, bars = page(tmp_path)
    own = bars["skip-gram's own rate, mean over the word sets"]
    assert own[1:] == ["at most 0.005 below (1 million, 5 epochs); 2 cases", "yes"]
    assert bars["the same on Python's documentation: loss held out"][2] == "yes"
    assert bars["17 million words, 5 epochs: each set and analogies"][1:] == [
        "-0.020 at least (analogies), 1 seed",
        "**no**",
    ]
    assert bars["12 million characters, 2 epochs: MEN"][1:] == ["0.410 / 0.250", "yes"]
    assert "| 1 million | 5 | 0.325 | – | 0.400 | – | 0.395 (2) | 0.07 |" in text
    assert "| fastText | its default | 0.250 (1) | 0.250 (1) | – | – | 1.00 s |" in text


def test_long_texts_beside_others(tmp_path) -> None:
    def record(millions: int, method: str, seconds: float, **more: float) -> dict:
        key = {"run": 0, "millions": millions, "method": method, "n_tokens": 10**6 * millions, "n_words": 5000}
        return {**key, "seconds": seconds * millions, "clock_seconds": 9.0, "memory_mib": 500.0, **more}

    records = [
        record(100, "nearfar", 0.5, bound_mib=1100.0, reading_seconds=10.0),
        record(10, "nearfar", 0.4, bound_mib=1100.0, reading_seconds=1.0),
        record(100, "gensim", 4.0, reading_seconds=30.0),
    ]
    write_results(tmp_path, "long_texts", records)
    text, bars = page(tmp_path)
    speed, memory = (
        "the whole way from a file, of the longest text of both",
        "100 million words, memory of the whole way",
    )
    assert bars[memory][1:] == ["500 of 1,100 MiB", "yes"]
    assert bars[speed][1:] == ["gensim 8.0 times (100 million words)", "yes"]
    assert "| 100 M | nearfar | 5,000 | 0.50 s | 0.10 s | 9 s | 500 MiB | 1,100 MiB |" in text
    records += [record(10, "fastText", 1.0), record(10, "fastText, subwords", 5.0)]
    records[0]["memory_mib"] = 1200.0
    write_results(tmp_path, "long_texts", records)
    text, bars = page(tmp_path)
    assert bars[memory][1:] == ["1,200 of 1,100 MiB", "**no**"]
    said = "gensim 8.0 times (100 million words), fastText 2.5 times (10 million words)"
    assert bars[speed][1:] == [said, "**no**"]
    assert "| 10 M | fastText, subwords | 5,000 | 5.00 s | – | 9 s | 500 MiB | – |" in text
