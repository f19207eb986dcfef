"""The estimators: parameters, their checks, ids and results. What is computed stands in :mod:`nearfar.methods`."""
