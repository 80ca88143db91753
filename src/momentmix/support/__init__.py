"""What every other room uses: array libraries, threads, progress bars, warnings."""
