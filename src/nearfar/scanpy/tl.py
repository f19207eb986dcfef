"""Tools: maps and vectors of cells, written to ``adata.obsm`` and ``adata.uns`` under the keys of ``scanpy.tl``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar._core.checks import check_integer, require
from nearfar._core.ids import in_memory
from nearfar._core.names import public_names
from nearfar._core.parameters import Parameters
from nearfar._core.types import Floats, Seed, TableLike
from nearfar._core.warn import warn_user
from nearfar._version import __version__
from nearfar.errors import InputError
from nearfar.estimators.edrep import EDRep
from nearfar.maps.recipes import TSNE, UMAP
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["edrep", "ingest", "tsne", "umap"]

_FEW = 50  # columns of X that scanpy takes as they are


def tsne(
    adata: AnnData,
    n_pcs: int | None = None,
    *,
    use_rep: str | None = None,
    random_state: Seed = 0,
    key_added: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> AnnData | None:
    """Draw a t-SNE map of cells, as ``scanpy.tl.tsne`` does.

    Parameters
    ----------
    adata : AnnData
    n_pcs : int, optional
        How many columns of the representation to take; all by default. 0 takes ``adata.X``.
    use_rep : str, optional
        A key of ``adata.obsm``, or "X". By default "X_pca", or ``adata.X`` where it has 50 columns or less.
    random_state : int, default=0
        Same number, same map.
    key_added : str, optional
        Another key for ``obsm`` and ``uns``.
    copy : bool, default=False
        Return a copy with the map, and leave ``adata`` as it is.
    **parameters
        Those of :class:`nearfar.TSNE`, such as ``perplexity``, ``metric`` and ``n_jobs``.

    Returns
    -------
    AnnData or None
        ``obsm["X_tsne"]`` holds the map, ``uns["tsne"]["params"]`` the parameters.

    Raises
    ------
    InputError
        If the representation is not there, or a parameter cannot be used.

    See Also
    --------
    nearfar.TSNE

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.scanpy.tl.tsne(adata)  # doctest: +SKIP
    >>> sc.pl.tsne(adata, color="louvain")  # doctest: +SKIP
    """
    owner = "scanpy.tl.tsne"
    adata = _checked(owner, adata, copy)
    model = TSNE(random_state=random_state, **parameters)
    X = _representation(owner, adata, use_rep, n_pcs)
    _write(adata, "tsne", key_added, model.fit_transform(X), {**_plain(model), "use_rep": use_rep, "n_pcs": n_pcs})
    return adata if copy else None


def umap(
    adata: AnnData,
    *,
    min_dist: float = 0.5,
    spread: float = 1.0,
    neighbors_key: str | None = None,
    random_state: Seed = 0,
    key_added: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> AnnData | None:
    """Draw a UMAP map of the neighbours that ``scanpy.pp.neighbors`` found, as ``scanpy.tl.umap`` does.

    Parameters
    ----------
    adata : AnnData
        After ``scanpy.pp.neighbors(adata)``.
    min_dist, spread : float, default=0.5 and 1.0
        As for :class:`nearfar.UMAP`; the default is that of scanpy.
    neighbors_key : str, optional
        Which neighbours, where ``scanpy.pp.neighbors`` was called with ``key_added``.
    random_state : int, default=0
        Same number, same map.
    key_added : str, optional
        Another key for ``obsm`` and ``uns``.
    copy : bool, default=False
        Return a copy with the map, and leave ``adata`` as it is.
    **parameters
        Others of :class:`nearfar.UMAP`.

    Returns
    -------
    AnnData or None
        ``obsm["X_umap"]`` holds the map, ``uns["umap"]["params"]`` the parameters; there ``a`` and ``b`` are what
        umap-learn makes of ``min_dist`` and ``spread``, for tools that ask for them.

    Raises
    ------
    InputError
        If there are no neighbours, or a parameter cannot be used.

    See Also
    --------
    nearfar.UMAP : says where it differs from umap-learn.

    Examples
    --------
    >>> import nearfar as nf
    >>> sc.pp.neighbors(adata)  # doctest: +SKIP
    >>> nf.scanpy.tl.umap(adata)  # doctest: +SKIP
    """
    owner = "scanpy.tl.umap"
    adata = _checked(owner, adata, copy)
    model = UMAP(min_dist=min_dist, spread=spread, random_state=random_state, **parameters)
    made = model.fit_transform(_neighbors(owner, adata, neighbors_key))
    a, b = _curve_of_umap_learn(float(min_dist), float(spread))
    _write(adata, "umap", key_added, made, {"a": a, "b": b, **_plain(model)})
    return adata if copy else None


def edrep(
    adata: AnnData,
    n_components: int = 32,
    *,
    neighbors_key: str | None = None,
    random_state: Seed = 0,
    key_added: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> AnnData | None:
    """Learn vectors of cells from the neighbours that ``scanpy.pp.neighbors`` found.

    Parameters
    ----------
    adata : AnnData
        After ``scanpy.pp.neighbors(adata)``.
    n_components : int, default=32
        Length of a vector.
    neighbors_key : str, optional
        Which neighbours, where ``scanpy.pp.neighbors`` was called with ``key_added``.
    random_state : int, default=0
        Same number, same vectors.
    key_added : str, optional
        Another key for ``obsm`` and ``uns``.
    copy : bool, default=False
        Return a copy with the vectors, and leave ``adata`` as it is.
    **parameters
        Those of :class:`nearfar.EDRep`.

    Returns
    -------
    AnnData or None
        ``obsm["X_edrep"]`` holds the vectors, ``uns["edrep"]["params"]`` the parameters. ``use_rep="X_edrep"`` makes
        other functions take them.

    Raises
    ------
    InputError
        If there are no neighbours, or a parameter cannot be used.

    See Also
    --------
    nearfar.EDRep

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.scanpy.tl.edrep(adata, n_components=16)  # doctest: +SKIP
    >>> sc.pp.neighbors(adata, use_rep="X_edrep")  # doctest: +SKIP
    """
    owner = "scanpy.tl.edrep"
    adata = _checked(owner, adata, copy)
    model = EDRep(n_components, random_state=random_state, **parameters)
    made = model.fit(_neighbors(owner, adata, neighbors_key)).embedding_
    _write(adata, "edrep", key_added, made, _plain(model))
    return adata if copy else None


def ingest(
    adata: AnnData,
    adata_ref: AnnData,
    obs: str | list[str] | None = None,
    *,
    basis: str = "tsne",
    use_rep: str | None = None,
    n_neighbors: int = 15,
    copy: bool = False,
    **parameters: Any,
) -> AnnData | None:
    """Place new cells in a map that is there, and label them by their neighbours, as ``scanpy.tl.ingest`` does.

    Parameters
    ----------
    adata : AnnData
        The new cells.
    adata_ref : AnnData
        Those of the map; it stays as it is.
    obs : str or list of str, optional
        Columns of ``adata_ref.obs`` to hand on: each new cell takes the most frequent among its neighbours, none where
        most of these have none.
    basis : str, default="tsne"
        The map is ``adata_ref.obsm["X_" + basis]``. That of "umap" is taken for one of UMAP, others for t-SNE.
    use_rep : str, optional
        A key of both ``obsm``, or "X", by which neighbours are found. By default what drew the map of nearfar, else
        "X_pca". The principal components of new cells are always those of ``adata_ref``: ``varm["PCs"]`` is applied.
        Genes go by ``var_names``, in whatever order they are.
    n_neighbors : int, default=15
        How many cells hand on their labels.
    copy : bool, default=False
        Return a copy with the places, and leave ``adata`` as it is.
    **parameters
        Those of :class:`nearfar.TSNE` or :class:`nearfar.UMAP` that drew the map, such as ``perplexity``.

    Returns
    -------
    AnnData or None
        ``obsm["X_" + basis]`` holds the places, ``obsm["X_pca"]`` the components, ``obs`` the columns.

    Raises
    ------
    InputError
        If the map, the representation, a gene or a column is not there, or two genes have one name.

    Warns
    -----
    NearfarWarning
        If cells get no label.

    See Also
    --------
    nearfar.NeighborEmbedding.transform

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.scanpy.tl.tsne(adata_ref)  # doctest: +SKIP
    >>> nf.scanpy.tl.ingest(adata, adata_ref, obs="leiden")  # doctest: +SKIP
    """
    owner = "scanpy.tl.ingest"
    reference, adata = _checked(owner, adata_ref, False), _checked(owner, adata, copy)
    key = f"X_{basis}"
    if key not in reference.obsm:
        got = f"{basis!r}, where there are {', '.join(map(repr, reference.obsm)) or 'none'}"
        raise InputError(owner, "basis", "a map in adata_ref.obsm", got, "Draw it first, as by nf.scanpy.tl.tsne.")
    columns = [obs] if isinstance(obs, str) else list(obs or ())
    for column in columns:
        if column not in reference.obs:
            raise InputError(owner, "obs", "columns of adata_ref.obs", repr(column))
    told = dict(reference.uns.get(basis, {})).get("params", {})
    use_rep = use_rep or told.get("use_rep")
    known = _representation(owner, reference, use_rep, None)
    if use_rep is None and known is not reference.obsm.get("X_pca"):
        use_rep = "X"
    rows: Any
    if use_rep in (None, "X_pca"):
        rows = _projected(owner, adata, reference)
    else:
        rows = _by_gene(owner, adata, reference) if use_rep == "X" else _representation(owner, adata, use_rep, None)

    places = np.ascontiguousarray(reference.obsm[key], dtype=np.float32)
    drawn = UMAP if basis == "umap" else TSNE
    kept = {name: told[name] for name in ("perplexity", "metric", "min_dist", "spread") if name in told}
    model = drawn(init=places, early_exaggeration_iter=0, max_iter=1, random_state=0, **(kept | parameters))
    model.fit(known)
    model.embedding_ = places  # the map as it is: the fit was for the neighbours
    adata.obsm[key] = np.asarray(model.transform(rows))
    if columns:
        from sklearn.neighbors import KNeighborsClassifier

        for column in columns:
            voters = KNeighborsClassifier(check_integer(owner, "n_neighbors", n_neighbors, low=1, high=reference.n_obs))
            named = reference.obs[column].astype("category")
            codes = voters.fit(known, named.cat.codes).predict(rows)  # -1: no label
            adata.obs[column] = type(named.array).from_codes(codes, dtype=named.dtype)
            if unnamed := int((codes < 0).sum()):
                text = f"{unnamed:,} of {adata.n_obs:,} cells get no {column!r}, as most of their neighbours have none."
                warn_user(f"{owner}: {text}")
    return adata if copy else None


def _by_gene(owner: str, adata: AnnData, reference: AnnData) -> Any:
    """Return X of new cells with the genes of the reference, in its order."""
    for name, cells in (("adata_ref", reference), ("adata", adata)):
        if not cells.var_names.is_unique:
            twice = cells.var_names[cells.var_names.duplicated()][0]
            hint = f"{name}.var_names_make_unique() gives them other names."
            raise InputError(owner, name, "cells whose genes have different names", f"{twice!r} more than once", hint)
    missing = reference.var_names.difference(adata.var_names)
    if len(missing):
        raise InputError(owner, "adata", "cells with the genes of adata_ref", f"none of {missing[0]!r}")
    return in_memory(adata.X)[:, adata.var_names.get_indexer(reference.var_names)]


def _projected(owner: str, adata: AnnData, reference: AnnData) -> Floats:
    """Return the components of new cells along those of the reference, and keep them as scanpy would."""
    if "PCs" not in reference.varm:
        raise InputError(owner, "adata_ref", "one with varm['PCs']", "none", "Run scanpy.pp.pca, or give use_rep.")
    components = np.asarray(reference.varm["PCs"])
    known, new = in_memory(reference.X), _by_gene(owner, adata, reference)
    centred = dict(reference.uns.get("pca", {})).get("params", {}).get("zero_center", True)
    mean = np.asarray(known.mean(axis=0)).ravel() if centred else np.zeros(reference.n_vars)
    rows = np.asarray(new @ components - mean @ components)
    adata.obsm["X_pca"] = rows
    return rows


def _checked(owner: str, adata: AnnData, copy: bool) -> AnnData:
    if not isinstance(adata, require(owner, "anndata", "scanpy").AnnData):
        hint = "For others there are nf.TSNE, nf.UMAP, ..."
        raise InputError(owner, "adata", "an AnnData", type(adata).__name__, hint)
    return adata.copy() if copy else adata


def _representation(owner: str, adata: AnnData, use_rep: str | None, n_pcs: int | None) -> TableLike:
    """Return the rows that scanpy would take."""
    if n_pcs is not None:
        check_integer(owner, "n_pcs", n_pcs, low=0)
    if use_rep == "X" or (use_rep is None and (n_pcs == 0 or adata.n_vars <= _FEW)):
        return in_memory(adata.X)
    key = "X_pca" if use_rep is None else use_rep
    if key not in adata.obsm:
        hint = "Run scanpy.pp.pca, or take use_rep='X'." if use_rep is None else ""
        got = f"{key!r}, where there are {', '.join(map(repr, adata.obsm)) or 'none'}"
        raise InputError(owner, "use_rep", "'X' or a key of adata.obsm", got, hint)
    rows: Floats = adata.obsm[key]
    if n_pcs is None:
        return rows
    check_integer(owner, "n_pcs", n_pcs, low=1, high=rows.shape[1])
    return np.asarray(rows)[:, :n_pcs]


def _neighbors(owner: str, adata: AnnData, neighbors_key: str | None) -> Relation:
    """Return the weighted neighbours that scanpy found."""
    key = "neighbors" if neighbors_key is None else neighbors_key
    default = "connectivities" if neighbors_key is None else f"{key}_connectivities"
    key = dict(adata.uns.get(key, {})).get("connectivities_key", default)
    if key not in adata.obsp:
        got = f"{key!r}, where there are {', '.join(map(repr, adata.obsp)) or 'none'}"
        expected = "one of neighbours that were found"
        raise InputError(owner, "neighbors_key", expected, got, "Run scanpy.pp.neighbors first.")
    return Relation.from_matrix(adata.obsp[key])


def _plain(model: Parameters) -> dict[str, object]:
    """Return the parameters of an estimator that a file can hold."""
    return {name: value for name, value in model.get_params().items() if isinstance(value, (str, int, float))}


def _write(adata: AnnData, name: str, key: str | None, rows: Floats, parameters: dict[str, object]) -> None:
    adata.obsm[key or f"X_{name}"] = np.asarray(rows)
    told = {name: value for name, value in parameters.items() if value is not None}
    adata.uns[key or name] = {"params": told | {"nearfar": __version__}}


@cache
def _curve_of_umap_learn(min_dist: float, spread: float) -> tuple[float, float]:
    """Return a and b of ``1 / (1 + a d^(2b))`` nearest to UMAP's curve, least squares up to three spreads."""
    from scipy.optimize import curve_fit

    distance = np.linspace(0, 3 * spread, 300)
    wanted = np.where(distance < min_dist, 1.0, np.exp(-(distance - min_dist) / spread))
    a, b = curve_fit(lambda d, a, b: 1 / (1 + a * d ** (2 * b)), distance, wanted)[0]
    return float(a), float(b)


public_names(__name__, __all__)
