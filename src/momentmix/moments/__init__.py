"""Inner products of moments of any order, which are never formed (Pereira–Kileel–Kolda)."""

from momentmix.moments.functions import contract as contract
from momentmix.moments.functions import contract_grad as contract_grad
from momentmix.moments.functions import inner as inner
from momentmix.moments.functions import inner_grad as inner_grad
from momentmix.moments.functions import squared_distance as squared_distance
