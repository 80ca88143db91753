"""Rows on a Dask cluster. The only folder that names Dask, and one that knows no mathematics."""
