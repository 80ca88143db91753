"""The input and output of a fit: data in centred and scaled coordinates, and parameters."""
