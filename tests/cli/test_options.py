"""Options that are parameters of what a command calls: read from the source, as the signature and the docstring say."""

import ast
import importlib
import inspect

import click
import pytest

from nearfar.cli import _cli, options
from nearfar.cli.options import column, column_list, parameters_of


def commands(group, path=""):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


ALL = dict(commands(_cli))
[command.params for command in ALL.values()]  # asks for every option, so that what was read is known below
READ = {
    "estimators.edrep:EDRep": "n_components n_clusters temperature n_epochs learning_rate far",
    "relations.matrix:Relation.from_edges": "directed bipartite columns source target weight",
    "relations.matrix:Relation.from_contacts": "window step end",
    "maps.neighbor:NeighborEmbedding": "n_components perplexity metric max_iter",
    "words.skipgram:SkipGram": "window n_negative min_count max_size sample n_epochs optimizer learning_rate init",
    "words.word2dm:Word2DM": "n_factors window",
    "words.multisense:MultiSenseWord2DM": "n_senses variant",
    "text.corpus:Corpus": "tokenizer lowercase encoding_errors",
    "tables.compress:compress": "n_anchors nnz_per_row nonnegative n_iter",
    "evaluate.graphs:link_prediction": "held_out features degrees baselines n_repeats",
    "evaluate.graphs:node_classification": "fractions n_repeats",
    "evaluate.stability:stability": "k metric",
    "evaluate.alignment:align": "center scale",
    "evaluate.alignment:Alignment.most_moved": "topn",
    "evaluate.words:word_analogies": "method",
    "density.composition:compose": "operator",
}


@pytest.mark.parametrize("callee", READ)
def test_parameters_are_those_of_the_signature(callee):
    module, _, path = callee.partition(":")
    called = importlib.import_module(f"nearfar.{module}")
    for name in path.split("."):
        called = getattr(called, name)
    read = parameters_of(callee)
    signature = inspect.signature(called).parameters
    assert signature.keys() <= read.keys()
    for name in READ[callee].split():
        default = read[name].default
        said = inspect.Parameter.empty if default is None else ast.literal_eval(default)
        assert said == signature[name].default
        assert len(read[name].help) > 10
        assert "``" not in read[name].help
        assert ":`" not in read[name].help


def test_choices_are_those_that_the_library_has():
    from nearfar.evaluate.graphs import FEATURES

    features = next(item for item in ALL["evaluate links"].params if item.name == "features")
    assert list(features.type.choices) == list(FEATURES) == list(features.default)
    far = next(item for item in ALL["embed"].params if item.name == "far")
    assert list(far.type.choices) == ["gaussian-mixture", "exact", "noise"]


def test_first_sentence_in_plain_words():
    text = "K, as in :func:`nearfar.compose`, or ``x . y``, 0.5 at most. More of it."
    assert options.Parameter("int", None, "int", text).help == "As in compose, or x . y, 0.5 at most."


def test_types_follow_annotations():
    def kind(types, values=""):
        return options.Parameter(types, ast.Constant(None), values, "Text.").attributes()

    assert kind("float | Sequence[float]")["type"] is float
    assert kind("int | None")["type"] is int
    assert kind("bool")["is_flag"]
    assert kind("str | int | None")["type"] is column
    assert kind("str", '{"a", "b"}, default="a"')["type"].choices in (["a", "b"], ("a", "b"))
    assert tuple(kind("Literal['a', 'b']")["type"].choices) == ("a", "b")
    assert options.Parameter("int", None, "int", "Text.").attributes()["required"]


def test_columns_by_name_or_position():
    assert (column("7"), column("km"), column_list("from,2")) == (7, "km", ["from", 2])
