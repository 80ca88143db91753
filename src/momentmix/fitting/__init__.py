"""One fit: what is asked for (plan), what is given (problem), and the way from one to the other."""
