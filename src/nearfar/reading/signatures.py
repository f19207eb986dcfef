"""Texts that are no list of edges, told by their first bytes, and the one call that reads each."""

from __future__ import annotations

import re
from collections.abc import Collection

from nearfar.errors import DataError
from nearfar.reading.listed import READERS, is_of_neighbours

_GRAPH = "nf.Relation.from_edges(graph) takes the graph: graph = "
_ROWS = "Pass a frame of it, or write one to CSV: "

# The first that fits, of what is left of a text behind blank lines; some after lines of comments.
_BEGINS = {
    "a pointer of Git LFS": r"version https://git-lfs",
    "an HTML page": r"<!doctype html|<html|<head|<body",
    "a GraphML file": r"<graphml|<\?xml[^>]*>(\s|<!--.*?-->)*<graphml",
    "a GEXF file": r"<gexf|<\?xml[^>]*>(\s|<!--.*?-->)*<gexf",
    "triples (N-Triples, Turtle or TriG)": r"<[a-z][a-z0-9+.-]*:[^>\s]*>\s|_:\w+\s+<|@(prefix|base)\s|"
    r"prefix\s+\w*:\s*<",
    "an XML file": r"<\?xml|<!--|<!doctype|</?[a-z][\w:.-]*[\s/>]",
    "a graph in JSON": r"\{(?=(?s:.{0,65536})\"(nodes|links|edges|elements)\"\s*:)",
    "GeoJSON": r"\{\s*\"type\"\s*:\s*\"(feature|topology|point|line|poly|multi)",
    "JSON": r"\{\s*(\"|\}|\r?\n)|\[\s*(\[|\{|\"|\]|-?\d)",
    "a Matrix Market file": r"%%MatrixMarket",
    "a Pajek file": r"\*(vertices|network|arcs|edges|arcslist|matrix)\b",
    "a GML file": r"((creator|version|comment)\b.*\s+)*graph\s*\[",
    "a DOT file": r"(strict\s+)?(di)?graph\b[^\[{\n]*\{",
    "a UCINET DL file": r"dl\s+n\s*[r=]",
    "a DIMACS file": r"(c\b.*\n\s*)*p\s+(sp|edges?|col|max|min|asn|cnf|aux)\b",
    "an edge list of networkx with attributes": r"(#.*\n\s*)*"
    r"(\S+[ \t]+\S+[ \t]+|[^\n{,;]+[,;][^\n{,;]+[,;]|\S[^{\t]*\t[^{\t]*\t)\{['\"]?\w+['\"]?\s*:[^\n]*\}\s*\n",
    "a graph in GDF": r"nodedef\s*>",
    "a graph in LGL": r"(#[ \t]+\S+[ \t]*\n(\S+([ \t]+[\d.eE+-]+)?[ \t]*\n)+){2}",
    "a table with lines drawn": r"\+-[-+=]+\+[ \t]*\n|\|[^\n]*\|[ \t]*\n[ \t]*\|[ \t]*:?-[-:|+ ]*\n|"
    r"[^\n|]+\|[^\n]*\n-+(\+-+)+[ \t]*\n",
    "tuples written as text": r"(#.*\n\s*)*\([^\n()]*,[^\n()]*\)(\s*[,;\t ]|\r?\n\()",
    "a graph in TGF": r"([^#\s]\S*[ \t].*\n)+#[ \t]*\n\s*\S+[ \t]+\S+",
    "a tree in Newick": r"\([^\n]*\)[^\n]*;\s*(\n|$)",
    "a NEXUS file": r"#nexus\b",
    "an ARFF file": r"(%.*\n\s*)*@relation\b",
    "sequences (FASTA)": r">\s*[\w|]",
    "variants (VCF)": r"##fileformat=vcf",
    "an SQL dump": r"(--.*\s+|/\*.*?\*/;?\s*)*(create|insert|drop|begin|set|alter)\s+"
    r"(table|into|database|transaction|names|@)\s*[`\"\w@;]",
    "a patch": r"(diff --git|---? a/|index:? )",
    "a script": r"#!\s*/|(import|from|package|library|def|class|function|const|let|var)\s*[ (][\w.{(*]+"
    r"( import .*|.*[({;:)])\s*\n|import [\w.]+( as \w+)?\s*\n|#include\s*[<\"]",
    "a PDF file": r"%pdf-",
    "PostScript": r"%!ps",
    "rich text (RTF)": r"\{\\rtf",
    "a LaTeX file": r"(%.*\n\s*)*\\(documentclass|begin|section|input|usepackage)\b",
    "references (BibTeX)": r"(%.*\n\s*)*@\w+\s*\{",
    "references (RIS)": r"ty  - ",
    "a key or certificate": r"-----begin ",
    "a calendar or card": r"begin:v",
    "an answer of a web server": r"http/\d",
    "a mailbox": r"from \S+@?\S* +(mon|tue|wed|thu|fri|sat|sun)|"
    r"(received|return-path|delivered-to|message-id|mime-version):",
    "subtitles": r"webvtt\b|\d+\r?\n\d\d:\d\d:\d\d[,.]\d+ -->",
    "a playlist": r"#extm3u",
    "a log of a web server": r"\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}",
    "regions of a genome (BED, GFF)": r"##gff|(#.*\n|track .*\n|browser .*\n)*chr\w{1,5}\t\d+\t\d+\t(?!chr)",
    "data in LIBSVM": r"\S+([ \t]+\d+:\S+){2,}",
    "settings (YAML)": r"---\s*\n|%yaml",
    "settings (INI or TOML)": r"(([;#].*)?\n)*\s*\[[\w.\" -]+\]\s*\n\s*[\w.-]+\s*=",
    "a solid (STL)": r"solid\b.*\n\s*facet",
    "a structure (PDB)": r"(?-i:HEADER|TITLE|ATOM|HETATM|MODEL|COMPND|REMARK) .{60,}\n",
}
_HINTS = {
    "a pointer of Git LFS": "The data are elsewhere: run git lfs pull.",
    "an HTML page": "The download failed, or the link is to a page.",
    "a GraphML file": _GRAPH + "networkx.read_graphml(path)",
    "a GEXF file": _GRAPH + "networkx.read_gexf(path)",
    "triples (N-Triples, Turtle or TriG)": "Pass [(str(s), str(o)) for s, p, o in rdflib.Graph().parse(path)].",
    "JSON": _ROWS + "pandas.read_json(path), with lines=True if each is one.",
    "a Matrix Market file": "nf.Relation.from_matrix(scipy.io.mmread(path)) reads it.",
    "a Pajek file": _GRAPH + "networkx.read_pajek(path)",
    "a GML file": _GRAPH + "networkx.read_gml(path)",
    "a DOT file": _GRAPH + "networkx.nx_pydot.read_dot(path)",
    "a UCINET DL file": "Pass its matrix to nf.Relation.from_matrix, its edges as tuples.",
    "a DIMACS file": "Pass its arcs as tuples.",
    "a table with lines drawn": "Leave out the lines that draw; mysql --batch and psql --csv write none.",
    "tuples written as text": "Pass the tuples themselves.",
    "a graph in TGF": "Pass its edges as tuples.",
    "an ARFF file": _ROWS + "pandas.DataFrame(scipy.io.arff.loadarff(path)[0]).",
    "vectors in word2vec's text": "Embedding.load(path) reads it.",
    "data in LIBSVM": "Pass what sklearn.datasets.load_svmlight_file gives to a map.",
}


def refuse_other_texts(owner: str, argument: str, name: str, text: str, taken: Collection[str] | None = ()) -> str:
    """Refuse a text that is no list of edges by how it begins, unless it is one of those that are taken; None: all are.

    Returns
    -------
    str
        What it is, "" if nothing says so.

    Raises
    ------
    DataError
        Says what it is, and how it is read.
    """
    text = text.lstrip()
    expected = "a list of edges" if argument == "edges" else "text or a table"
    head, _, rest = text.partition("\n")
    sizes, width = head.split(), len(rest.partition("\n")[0].split())
    what = next((what for what, begins in _BEGINS.items() if re.match(begins, text, re.IGNORECASE)), "")
    if not what and text.startswith("#") and is_of_neighbours(text):
        what = "lines of neighbours of networkx"
    if argument == "edges" and len(sizes) == 2 and all(map(str.isdecimal, sizes)) and width == int(sizes[1]) + 1 > 3:
        what = "vectors in word2vec's text"
    if what and taken is not None and what not in taken:
        hint = "nf.read(path) reads it." if what in READERS else _HINTS.get(what, "Is this the right file?")
        raise DataError(owner, argument, expected, f"{what}: {name}", hint)
    return what
