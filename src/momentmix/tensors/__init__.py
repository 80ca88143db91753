"""Moment tensors that are formed: dense, or packed into their distinct entries."""
