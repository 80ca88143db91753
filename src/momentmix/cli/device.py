"""The option ``--device``: where the work on rows is done."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from momentmix.distributions.mixture import Mixture
from momentmix.support.array import Array, as_like
from momentmix.support.device import device_named

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Work at the rows on this device of PyTorch, such as cuda; by default here.",
        show_default=False,
    ),
]


class Worktop:
    """Where rows and a model meet: here, or on a device."""

    def __init__(self, name: str | None) -> None:
        try:
            self.device: Array | None = None if name is None else device_named(name)
        except ValueError as error:
            raise ValueError(str(error).replace("leave device out", "leave --device out")) from None
        except ImportError as error:
            raise ImportError(str(error).replace("device=", "--device ")) from None

    def rows(self, X: np.ndarray) -> Array:
        """Rows there."""
        return X if self.device is None else as_like(X, self.device)

    def model(self, mixture: Mixture) -> Mixture:
        """A model there."""
        return mixture if self.device is None else mixture.on(self.device)
