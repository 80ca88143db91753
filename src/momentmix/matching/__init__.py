"""Matching moments: the cost, the orders and weights it needs, and its starts."""
