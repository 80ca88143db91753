"""Rows that lie elsewhere, in blocks, and sums over them; it knows no mathematics.

The only folder that names Dask, Spark and Arrow's streams: one file for each.
"""
