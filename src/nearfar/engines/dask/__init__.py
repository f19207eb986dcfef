"""The engine of a Dask cluster: rows in parts. Dask places the tasks, moves data and replaces lost workers."""
