"""What all other folders use: array libraries, threads, progress bars, warnings."""
