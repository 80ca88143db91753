"""The estimators, in the manner of scikit-learn. They check, build, solve and set."""
