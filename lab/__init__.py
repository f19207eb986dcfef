"""The lab: what nearfar is measured by, beside others, and the experiments of the papers. See ``python -m lab``."""
