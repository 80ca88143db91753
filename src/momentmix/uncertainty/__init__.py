"""How sure the parameters of a fit are: standard errors, intervals, the bootstrap."""
