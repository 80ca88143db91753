"""The pictures of the design page, drawn from the code and the page when the docs are built."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "momentmix"
OUT = HERE / "images" / "generated"
BOX = {"boxstyle": "round,pad=0.35", "facecolor": "#e8eef7", "edgecolor": "#4a6fa5"}


def draw(app=None):
    import matplotlib

    matplotlib.use("Agg")
    OUT.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "momentmix"  # the same picture, the same file
    _folders(OUT / "folders.svg")
    _walk(OUT / "walk.svg")


def imports_of_parts():
    """Which folders and root modules each of them imports."""
    uses = {}
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part.startswith("_"):  # what is public alone, and a part of the demo
            continue
        uses.setdefault(part, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("momentmix."):
                uses[part].add(node.module.split(".")[1])
    return {part: others - {part} for part, others in uses.items()}


def levels(uses):
    """How many imports deep each part lies."""
    depth = {}

    def of(part):
        if part not in depth:
            depth[part] = 1 + max((of(other) for other in uses[part]), default=-1)
        return depth[part]

    for part in uses:
        of(part)
    return depth


def reduced(uses):
    """The imports without those that follow from others."""
    reach = {}

    def of(part):
        if part not in reach:
            reach[part] = uses[part].union(*(of(other) for other in uses[part]))
        return reach[part]

    return {
        (part, other)
        for part in uses
        for other in uses[part]
        if not any(other in of(third) for third in uses[part] - {other})
    }


def _folders(path):
    import matplotlib.pyplot as plt

    uses = imports_of_parts()
    depth = levels(uses)
    rows = [sorted(p for p in depth if depth[p] == k) for k in range(max(depth.values()) + 1)]
    edges, where = reduced(uses), {}
    for k, row in enumerate(rows):
        # Each stands near what it imports, so that arrows seldom cross.
        def wish(part):
            below = [where[b][0] for a, b in edges if a == part]
            return sum(below) / len(below) if below else 0.0

        row.sort(key=wish)
        for i, part in enumerate(row):
            where[part] = (i - (len(row) - 1) / 2) * 2.2, float(k)
    figure, ax = plt.subplots(figsize=(8, 0.62 * len(rows)))
    for a, b in edges:
        bend = 0.0
        if depth[a] - depth[b] > 1:  # around what lies between, on the near side
            bend = -0.35 if where[a][0] + where[b][0] > 0 else 0.35
        arrow = {"arrowstyle": "-|>", "color": "0.55", "lw": 0.8, "shrinkA": 11, "shrinkB": 11}
        ax.annotate(
            "", where[b], where[a], arrowprops=arrow | {"connectionstyle": f"arc3,rad={bend}"}
        )
    for part, (x, y) in where.items():
        name = part + ("/" if (PACKAGE / part).is_dir() else ".py")
        ax.text(x, y, name, ha="center", va="center", fontsize=9, bbox=BOX)
    ax.set(xlim=(-6, 6), ylim=(-0.6, len(rows) - 0.4))
    ax.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def walk():
    """The files of the walk, as the design page lists them."""
    page = (HERE / "design.md").read_text(encoding="utf-8")
    section = page.split("## The walk of a fit")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([a-z_/]+\.py)`", section, flags=re.M)


def _walk(path):
    import matplotlib.pyplot as plt

    files = walk()
    lanes = ["estimators/", "fitting/", "matching/", "rows/", "root"]
    figure, ax = plt.subplots(figsize=(8.5, 0.3 * len(files) + 0.8))
    rooms = [f"{file.split('/')[0]}/" if "/" in file else "root" for file in files]
    points = [(lanes.index(room), -i) for i, room in enumerate(rooms)]
    ax.plot(*zip(*points, strict=True), color="#4a6fa5", lw=1.2, zorder=1)
    for (x, y), file in zip(points, files, strict=True):
        ax.text(x, y, file.split("/")[-1], ha="center", va="center", fontsize=8, bbox=BOX, zorder=2)
    for i, lane in enumerate(lanes):
        ax.text(i, 1.3, lane, ha="center", va="center", fontsize=10, weight="bold")
        ax.axvline(i, color="0.9", lw=1, zorder=0)
    ax.set(xlim=(-0.6, len(lanes) - 0.4), ylim=(-len(files), 2))
    ax.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw()
