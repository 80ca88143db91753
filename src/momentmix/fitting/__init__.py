"""One fit: the plan from its parameters, the problem from its data, and the solution."""
