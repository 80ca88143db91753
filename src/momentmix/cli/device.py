"""The option ``--device``: where computations on rows run."""

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
        help="PyTorch device to run on, e.g. cuda. Default: CPU.",
        show_default=False,
    ),
]


class WorkPlace:
    """Where computations run: on the CPU with NumPy, or on a device."""

    def __init__(self, name: str | None) -> None:
        try:
            self.device: Array | None = None if name is None else device_named(name)
        except ValueError as error:
            raise ValueError(str(error).replace("leave device out", "leave --device out")) from None
        except ImportError as error:
            raise ImportError(str(error).replace("device=", "--device ")) from None

    def rows(self, X: np.ndarray) -> Array:
        """The rows, moved there."""
        return X if self.device is None else as_like(X, self.device)

    def model(self, mixture: Mixture) -> Mixture:
        """The model, moved there."""
        return mixture if self.device is None else mixture.on(self.device)
