"""The equations of the sources: each stands once in the code, where the list here says, and none is left out."""

import re
from collections import Counter
from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "nearfar"
OF_MODULE = {  # sources that a module of methods/ has in all its comments
    "edrep": "EDRep", "maps": "Gradients", "descent": "t-SNE", "affinities": "Affinities",
    "noise_maps": "NoisePairs", "density": "densMAP", "tails": "HSSNE",
}  # fmt: skip
OF_SYMBOL = {"ε": "t-SNE", "dC/dnu_i": "Inhomogeneous"}
LISTED = {  # of each source and module, the equations that stand in it
    ("EDRep", "methods/edrep.py"): [*(f"eq. ({number})" for number in range(1, 7)), "the step"],
    ("EDRep", "reading/contacts.py"): ["definition D.2"],
    ("SGNS", "methods/words.py"): ["eq. (4)"],
    ("Word2DM", "methods/words.py"): ["eq. (4)", "eq. (8)"],
    ("NCE notes", "contrastive/rows.py"): ["section 1", "section 2"],
    ("NCE notes", "contrastive/losses.py"): ["eq. (2)", "section 2, recovery", "appendix A", "appendix C", "lemma C.1"],
    ("NCE notes", "contrastive/bounds.py"): ["section 1.2", "corollary 2.2"],
    ("NCE notes", "contrastive/noise.py"): ["lemma C.2"],
    ("Gradients", "methods/maps.py"): ["q_ij", "D_ij", "k_ij", "dC/dy_i", "S_i", "s_ij", "M", "c0"],
    ("NoisePairs", "methods/noise_maps.py"): ["a", "W_i"],
    ("Inhomogeneous", "methods/maps.py"): ["dC/dnu_i"],
    ("densMAP", "methods/density.py"): ["e_i", "ρ", "a_i"],
    ("HSSNE", "methods/tails.py"): ["D", "dC/dα"],
    ("Gradients", "divergences/probability.py"): [
        "Kullback-Leibler divergence",
        "reverse Kullback-Leibler divergence",
        "Jensen-Shannon divergence",
    ],
    ("Gradients", "kernels.py"): [
        "exponential kernel",
        "t-distribution kernel",
        "heavy-tailed kernel",
        "inhomogeneous t-SNE",
    ],
    ("NeRV", "divergences/probability.py"): ["cost"],
    ("ws-SNE", "maps/recipes.py"): ["weighted kernel"],
    ("Gradients", "maps/mds/kernels.py"): ["distance-based embedding"],
    ("Gradients", "divergences/stress.py"): ["metric MDS", "SSTRESS", "Sammon mapping"],
    ("t-SNE", "methods/maps.py"): ["ε"],
    ("t-SNE", "methods/descent.py"): ["γ", "v"],
    ("Affinities", "methods/affinities.py"): ["p_j|i", "H", "D", "p_ij"],
    ("ANT", "tables/proximal.py"): ["eqs. (2), (3)"],
    ("ANT", "tables/overlap.py"): ["eq. (33)", "appendix E"],
    ("ANT", "tables/sizes.py"): ["eq. (34)", "algorithm 2"],
    ("ANT", "tables/slots.py"): ["appendix H", "eq. (35)"],
    ("ANT", "tables/anchors.py"): ["eq. (32)", "appendix E, mixture"],
}


make_equations = loaded(ROOT / "docs" / "make_equations.py")


def listed():
    """(source and equation, module) of each equation."""
    return [(f"{source} {name}", module) for (source, module), names in LISTED.items() for name in names]


def commented():
    """The same of each comment in the code."""
    found = []
    for path in (SOURCE / "methods").glob("[a-z]*.py"):
        for one in make_equations.equations(path):
            source = OF_SYMBOL.get(one.name, OF_MODULE.get(path.stem, ""))
            found.append((f"{source} {one.name}".strip(), f"methods/{path.name}"))
    after_source = re.compile(f"^({make_equations.SOURCES}),")
    return found + [(after_source.sub(r"\1", one.name), one.module) for one in make_equations.elsewhere()]


def test_each_equation_stands_once_where_the_list_says():
    assert Counter(commented()) == Counter(listed())
    assert set(Counter(listed()).values()) == {1}


def test_the_words_of_a_comment_say_something():
    for one in make_equations.elsewhere():
        assert len(one.says) > 8, one
        assert one.formula in (SOURCE / one.module).read_text("utf-8")


@pytest.mark.parametrize(("comment", "name"), [
    ("x = 1  # ANT eq. (34): loss", "ANT eq. (34)"),
    ("# ANT eqs. (2), (3): the update", "ANT eqs. (2), (3)"),
    ("# NCE notes, lemma C.1: Z", "NCE notes, lemma C.1"),
    ("# EDRep definition D.2: pairs", "EDRep definition D.2"),
    ("# Word2DM is slow: wait", None),
    ("# eq. (5): a loss", None),
])  # fmt: skip
def test_the_form_of_a_comment(comment, name):
    found = make_equations._ELSEWHERE.findall(comment)
    assert [found_name for found_name, _ in found] == ([] if name is None else [name])


def test_no_comment_of_another_form_names_an_equation():
    """Numbers of the sources' equations in comments stand in one of the forms, so that none escapes the list."""
    loose = re.compile(rf"#.*\b(?:{make_equations.SOURCES})\b.*\beqs?\. ?\(")
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            if loose.search(line) and not path.is_relative_to(SOURCE / "methods"):
                assert make_equations._ELSEWHERE.search(line), f"{path}: {line}"
