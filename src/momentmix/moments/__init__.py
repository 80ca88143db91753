"""Inner products of moments of any order, which are never formed (Pereira–Kileel–Kolda)."""

from momentmix.moments.functions import (
    contract,
    contract_grad,
    inner,
    inner_grad,
    squared_distance,
)

__all__ = ["contract", "contract_grad", "inner", "inner_grad", "squared_distance"]
