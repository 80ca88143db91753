"""What a fit asks of its data: coordinates, moments, and sums over rows, wherever they are."""
