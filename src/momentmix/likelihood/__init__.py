"""The penalised likelihood: EM, splits and merges, the search for the best optimum."""
