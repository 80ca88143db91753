"""The distributions a user makes: mixtures, samples, and the moments of a stream."""
