"""Where the windows of a word model come from: a text or a relation, at first or when it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearfar.errors import InputError
from nearfar.models.words import _word_growth as growth
from nearfar.models.words._relation_pairs import RelationWindows
from nearfar.models.words._windows import HowToDraw, TextWindows, WindowSource
from nearfar.relations.matrix import Relation
from nearfar.text import Corpus, EncodedCorpus
from nearfar.text.encoded import check_encoded

if TYPE_CHECKING:
    from nearfar.models.words._word_model import WordModel


def source_of(model: WordModel, corpus: Any, n_jobs: int) -> WindowSource:
    """Return the windows of what a model is fitted to."""
    if isinstance(corpus, Relation):
        return RelationWindows(corpus, _how(model), n_jobs)
    text = _text(model, corpus, n_jobs)
    if isinstance(text, Corpus):
        text = text.encode(min_count=model.min_count, max_size=model.max_size)
    return _windows_of(model, text)


def further_source_of(model: WordModel, corpus: Any, n_jobs: int) -> WindowSource:
    """Return the windows of what a fitted model goes on with, known words or nodes first."""
    if isinstance(corpus, Relation) != (model.vocabulary_ is None):
        expected = "a relation, as in the fit" if model.vocabulary_ is None else "text, as in the fit"
        raise InputError(f"{type(model).__name__}.partial_fit", "corpus", expected, type(corpus).__name__)
    if isinstance(corpus, Relation):
        return growth.KnownNodes(RelationWindows(corpus, _how(model), n_jobs), model._ids)
    text = _text(model, corpus, n_jobs)
    if isinstance(text, Corpus):
        text = growth.encoded_further(text, model.vocabulary_, model.min_count, model.max_size)
    else:
        text = growth.in_known_numbers(text, model.vocabulary_)
    return _windows_of(model, text)


def _text(model: WordModel, corpus: Any, n_jobs: int) -> Corpus | EncodedCorpus:
    if isinstance(corpus, EncodedCorpus):
        check_encoded(type(model).__name__, corpus)
        return corpus
    return corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=n_jobs)


def _windows_of(model: WordModel, corpus: EncodedCorpus) -> WindowSource:
    if corpus.n_tokens == len(corpus):
        raise InputError(type(model).__name__, "corpus", "one with sentences of at least two words", "none")
    return TextWindows(corpus, _how(model))


def _how(model: WordModel) -> HowToDraw:
    return HowToDraw(
        model.window,
        model.shrink_window,
        model.n_negative,
        model.shared_negatives,
        model.sample,
        model.noise_exponent,
        model._together,
    )
