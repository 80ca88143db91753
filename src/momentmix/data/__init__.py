"""What a fit is made to: data in centred and scaled coordinates; the parameters it looks for."""
