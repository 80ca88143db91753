"""The machine that a table was made on, in one line."""

from __future__ import annotations

import os
import platform

import numpy as np
from threadpoolctl import threadpool_info


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            cpu = next(
                (line.split(":")[1].strip() for line in file if line.startswith("model name")), cpu
            )
    blas = next((i for i in threadpool_info() if i["user_api"] == "blas"), {})
    return (
        f"{cpu}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {blas.get('internal_api', 'BLAS')} {blas.get('version', '')} "
        f"on {blas.get('num_threads', '?')} threads"
    )
