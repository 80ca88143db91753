"""The uncertainty of the parameters of a fit: standard errors, intervals, the bootstrap."""
