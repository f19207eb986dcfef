"""Texts that are no list of edges, told by their first bytes, and the one call that reads each."""

from __future__ import annotations

import re
from collections.abc import Collection

from nearfar.errors import DataError
from nearfar.reading.listed import is_of_neighbours

_READ = "nf.read(path) reads it."
_GRAPH = "nf.Relation.from_edges(graph) takes the graph: graph = "
_ROWS = "Pass a frame of it, or write one to CSV: "


def _of(what: str, begins: str, hint: str = "Is this the right file?") -> tuple[str, re.Pattern[str], str]:
    """Return what a text is, how it begins, and how it is read."""
    return what, re.compile(begins, re.IGNORECASE), hint


# The first that fits, of what is left of a text behind blank lines; some after lines of comments.
_SIGNATURES = (
    _of("a pointer of Git LFS", r"version https://git-lfs", "The data are elsewhere: run git lfs pull."),
    _of("an HTML page", r"<!doctype html|<html|<head|<body", "The download failed, or the link is to a page."),
    _of("a GraphML file", r"<graphml|<\?xml[^>]*>(\s|<!--.*?-->)*<graphml", _GRAPH + "networkx.read_graphml(path)"),
    _of("a GEXF file", r"<gexf|<\?xml[^>]*>(\s|<!--.*?-->)*<gexf", _GRAPH + "networkx.read_gexf(path)"),
    _of("triples (N-Triples, Turtle or TriG)",
        r"<[a-z][a-z0-9+.-]*:[^>\s]*>\s|_:\w+\s+<|@prefix\s|@base\s|prefix\s+\w*:\s*<",
        "Pass [(str(s), str(o)) for s, p, o in rdflib.Graph().parse(path)]."),
    _of("an XML file", r"<\?xml|<!--|<!doctype|</?[a-z][\w:.-]*[\s/>]"),
    _of("a graph in JSON", r"\{(?=(?s:.{0,65536})\"(nodes|links|edges|elements)\"\s*:)", _READ),
    _of("GeoJSON", r"\{\s*\"type\"\s*:\s*\"(feature|topology|point|line|poly|multi)"),
    _of("JSON", r"\{\s*(\"|\}|\r?\n)|\[\s*(\[|\{|\"|\]|-?\d)",
        _ROWS + "pandas.read_json(path), with lines=True if each is one."),
    _of("a Matrix Market file", r"%%MatrixMarket", "nf.Relation.from_matrix(scipy.io.mmread(path)) reads it."),
    _of("a Pajek file", r"\*(vertices|network|arcs|edges|arcslist|matrix)\b", _GRAPH + "networkx.read_pajek(path)"),
    _of("a GML file", r"((creator|version|comment)\b.*\s+)*graph\s*\[", _GRAPH + "networkx.read_gml(path)"),
    _of("a DOT file", r"(strict\s+)?(di)?graph\b[^\[{\n]*\{", _GRAPH + "networkx.nx_pydot.read_dot(path)"),
    _of("a UCINET DL file", r"dl\s+n\s*[r=]", "Pass its matrix to nf.Relation.from_matrix, its edges as tuples."),
    _of("a DIMACS file", r"(c\b.*\n\s*)*p\s+(sp|edges?|col|max|min|asn|cnf|aux)\b", "Pass its arcs as tuples."),
    _of("an edge list of networkx with attributes",
        r"(#.*\n\s*)*(\S+[ \t]+\S+[ \t]+|[^\n{,;]+[,;][^\n{,;]+[,;]|\S[^{\t]*\t[^{\t]*\t)"
        r"\{['\"]?\w+['\"]?\s*:[^\n]*\}\s*\n",
        _READ),
    _of("a graph in GDF", r"nodedef\s*>", _READ),
    _of("a graph in LGL", r"(#[ \t]+\S+[ \t]*\n(\S+([ \t]+[\d.eE+-]+)?[ \t]*\n)+){2}", _READ),
    _of("a table with lines drawn",
        r"\+-[-+=]+\+[ \t]*\n|\|[^\n]*\|[ \t]*\n[ \t]*\|[ \t]*:?-[-:|+ ]*\n|[^\n|]+\|[^\n]*\n-+(\+-+)+[ \t]*\n",
        "Leave out the first line and all others that draw; mysql --batch and psql --csv write none."),
    _of("tuples written as text",
        r"(#.*\n\s*)*\([^\n()]*,[^\n()]*\)(\s*[,;\t ]|\r?\n\()", "Pass the tuples themselves."),
    _of("a graph in TGF", r"([^#\s]\S*[ \t].*\n)+#[ \t]*\n\s*\S+[ \t]+\S+", "Pass its edges as tuples."),
    _of("a tree in Newick", r"\([^\n]*\)[^\n]*;\s*(\n|$)"),
    _of("a NEXUS file", r"#nexus\b"),
    _of("an ARFF file", r"(%.*\n\s*)*@relation\b", _ROWS + "pandas.DataFrame(scipy.io.arff.loadarff(path)[0])."),
    _of("sequences (FASTA)", r">\s*[\w|]"),
    _of("variants (VCF)", r"##fileformat=vcf"),
    _of("an SQL dump", r"(--.*\s+|/\*.*?\*/;?\s*)*(create|insert|drop|begin|set|alter)\s+"
        r"(table|into|database|transaction|names|@)\s*[`\"\w@;]"),
    _of("a patch", r"(diff --git|---? a/|index:? )"),
    _of("a script", r"#!\s*/|(import|from|package|library|def|class|function|const|let|var)\s*[ (][\w.{(*]+"
        r"( import .*|.*[({;:)])\s*\n|import [\w.]+( as \w+)?\s*\n|#include\s*[<\"]"),
    _of("a PDF file", r"%pdf-"),
    _of("PostScript", r"%!ps"),
    _of("rich text (RTF)", r"\{\\rtf"),
    _of("a LaTeX file", r"(%.*\n\s*)*\\(documentclass|begin|section|input|usepackage)\b"),
    _of("references (BibTeX)", r"(%.*\n\s*)*@\w+\s*\{"),
    _of("references (RIS)", r"ty  - "),
    _of("a key or certificate", r"-----begin "),
    _of("a calendar or card", r"begin:v"),
    _of("an answer of a web server", r"http/\d"),
    _of("a mailbox", r"from \S+@?\S* +(mon|tue|wed|thu|fri|sat|sun)|"
        r"(received|return-path|delivered-to|message-id|mime-version):"),
    _of("subtitles", r"webvtt\b|\d+\r?\n\d\d:\d\d:\d\d[,.]\d+ -->"),
    _of("a playlist", r"#extm3u"),
    _of("a log of a web server", r"\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}"),
    _of("regions of a genome (BED, GFF)", r"##gff|(#.*\n|track .*\n|browser .*\n)*chr\w{1,5}\t\d+\t\d+\t(?!chr)"),
    _of("data in LIBSVM", r"\S+([ \t]+\d+:\S+){2,}", "Pass what sklearn.datasets.load_svmlight_file gives to a map."),
    _of("settings (YAML)", r"---\s*\n|%yaml"),
    _of("settings (INI or TOML)", r"(([;#].*)?\n)*\s*\[[\w.\" -]+\]\s*\n\s*[\w.-]+\s*="),
    _of("a solid (STL)", r"solid\b.*\n\s*facet"),
    _of("a structure (PDB)", r"(?-i:HEADER|TITLE|ATOM|HETATM|MODEL|COMPND|REMARK) .{60,}\n"),
)  # fmt: skip


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
    found = ((what, hint) for what, begins, hint in _SIGNATURES if begins.match(text))
    what, hint = next(found, ("", ""))
    if not what and text.startswith("#") and is_of_neighbours(text):
        what, hint = "lines of neighbours of networkx", _READ
    if argument == "edges" and len(sizes) == 2 and all(map(str.isdecimal, sizes)) and width == int(sizes[1]) + 1 > 3:
        what, hint = "vectors in word2vec's text", "Embedding.load(path) reads it."
    if what and taken is not None and what not in taken:
        raise DataError(owner, argument, expected, f"{what}: {name}", hint)
    return what
