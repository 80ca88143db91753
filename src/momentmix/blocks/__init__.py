"""Rows that lie elsewhere, in blocks, and sums over them; there is no mathematics here.

No other folder names Dask, Spark or Arrow's streams; each has one file here.
"""
