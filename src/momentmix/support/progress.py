"""A progress bar for fits, where one is asked for."""

from __future__ import annotations

from tqdm.auto import tqdm


class Progress:
    """Shows how many starts are done, the last moment cost and the best likelihood."""

    def __init__(self, verbose: int, total: int, what: str = "starts") -> None:
        self._bar = tqdm(total=total, desc=what, disable=not verbose)
        self._best = -float("inf")
        self._shown: dict[str, str] = {}

    def start(self, what: str, value: float) -> None:
        """One start has its moments matched, or its likelihood known."""
        if what == "moments":
            self._shown["objective"] = f"{value:.5g}"
        else:
            self._best = max(self._best, value)
            self._shown["likelihood"] = f"{self._best:.5f}"
        self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update(1)

    def step(self, i: int, value: float) -> None:
        """EM has done a step."""
        self.start("likelihood", value)

    def iteration(self, i: int, value: float) -> None:
        """A solver has done an iteration."""
        if i == 1:
            self._bar.update(1)
        if not self._bar.disable:
            self._bar.set_postfix(iteration=i, objective=f"{value:.6g}", refresh=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
