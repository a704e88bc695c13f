"""Turn a short text of boxes and arrows into SVG, Mermaid, Graphviz or Excalidraw.

  diagram.py flow.txt --to svg --out flow.svg          nothing else is needed
  diagram.py flow.txt --to mermaid                     for Markdown pages that render it
  diagram.py flow.txt --to dot | dot -Tpng -o flow.png
  diagram.py flow.txt --to excalidraw --out flow.excalidraw     to be edited by hand

The text has one statement on each line:
  title Order process            direction right       (or down)
  shop[Web shop]                 a box; pay(Bank) round, ok{Paid?} a diamond, db[(Orders)] a store
  shop -> pay: order             an arrow with a label; --> is dashed, <-> has two heads
  group Backend: pay db          a frame around boxes
  # a comment
Boxes that only stand in arrows need no line of their own.
Exit code: 0 done, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

NAME = r"[A-Za-z_][\w-]*"
SHAPES = (
    ("store", rf"({NAME})\s*\[\((.+)\)\]"),
    ("box", rf"({NAME})\s*\[(.+)\]"),
    ("diamond", rf"({NAME})\s*\{{(.+)\}}"),
    ("round", rf"({NAME})\s*\((.+)\)"),
)
ARROW = re.compile(rf"({NAME})\s*(<->|-->|->|--)\s*({NAME})\s*(?::\s*(.*))?")
GROUP = re.compile(r"group\s+([^:]+):\s*(.+)")
LETTER, LINE = 8.2, 20
GAP_ACROSS, GAP_ALONG, EDGE = 44, 74, 30
COLORS = {"box": "#e8f0fe", "round": "#e6f4ea", "diamond": "#fef7e0", "store": "#f3e8fd"}


class Problem(Exception):
    """Something the user has to correct."""


class Node(NamedTuple):
    name: str
    shape: str
    label: str


class Edge(NamedTuple):
    start: str
    end: str
    arrow: str
    label: str


class Graph:
    def __init__(self) -> None:
        self.title = ""
        self.down = True
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self.groups: dict[str, list[str]] = {}


def parse(text: str) -> Graph:
    graph = Graph()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith(("#", "%%")):
            try:
                statement(graph, line)
            except Problem as problem:
                raise Problem(f"line {number}: {problem}") from None
    for edge in graph.edges:
        for name in (edge.start, edge.end):
            graph.nodes.setdefault(name, Node(name, "box", name.replace("_", " ")))
    for label, members in graph.groups.items():
        unknown = [name for name in members if name not in graph.nodes]
        if unknown:
            raise Problem(f"group {label}: there is no box {', '.join(unknown)}")
    if not graph.nodes:
        raise Problem("there is no box and no arrow in it")
    return graph


def statement(graph: Graph, line: str) -> None:
    word, _, rest = line.partition(" ")
    arrow, group = ARROW.fullmatch(line), GROUP.fullmatch(line)
    if arrow:
        graph.edges.append(Edge(arrow[1], arrow[3], arrow[2], (arrow[4] or "").strip()))
    elif group:
        graph.groups[group[1].strip()] = re.split(r"[\s,]+", group[2].strip())
    elif word == "title" and rest:
        graph.title = rest.strip()
    elif word == "direction":
        if rest.strip() not in ("right", "down"):
            raise Problem("direction is right or down")
        graph.down = rest.strip() == "down"
    else:
        for shape, pattern in SHAPES:
            found = re.fullmatch(pattern, line)
            if found:
                label = found[2].strip().strip('"').replace("\\n", "\n")
                graph.nodes[found[1]] = Node(found[1], shape, label)
                return
        raise Problem(f"{line!r} is no box, arrow, group, title or direction")


def backwards(after: dict[str, list[str]], nodes: list[str]) -> set[tuple[str, str]]:
    """The arrows that close a circle, found by going into the depth."""
    back, state = set(), dict.fromkeys(nodes, 0)
    for root in nodes:
        stack = [] if state[root] else [(root, iter(after[root]))]
        state[root] = state[root] or 1
        while stack:
            name, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                state[name] = 2
                stack.pop()
            elif state[other] == 1:
                back.add((name, other))
            elif not state[other]:
                state[other] = 1
                stack.append((other, iter(after[other])))
    return back


def layers(graph: Graph) -> list[list[str]]:
    """The boxes in rows: each as far as the longest way to it, arrows back left out."""
    after: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if edge.start != edge.end:
            after[edge.start].append(edge.end)
    back = backwards(after, list(graph.nodes))
    forward = [(start, end) for start, ends in after.items() for end in ends]
    forward = [pair for pair in forward if pair not in back]
    rank = dict.fromkeys(graph.nodes, 0)
    for _ in graph.nodes:
        for start, end in forward:
            rank[end] = max(rank[end], rank[start] + 1)
    rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for name in graph.nodes:
        rows[rank[name]].append(name)
    return untangled(graph, rows)


def untangled(graph: Graph, rows: list[list[str]]) -> list[list[str]]:
    """Order each row by the middle of its neighbours: fewer arrows cross."""
    near: dict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        near[edge.start].add(edge.end)
        near[edge.end].add(edge.start)
    for sweep in range(8):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            place = {n: at / max(len(each) - 1, 1) for each in rows for at, n in enumerate(each)}
            others = {name: [place[n] for n in near[name] if n not in row] for name in row}
            middle = {n: sum(v) / len(v) if v else place[n] for n, v in others.items()}
            row.sort(key=lambda name: middle[name])
    return rows


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def size(node: Node) -> tuple[float, float]:
    lines = node.label.split("\n")
    width = max(len(line) for line in lines) * LETTER + 36
    height = len(lines) * LINE + 22
    if node.shape == "diamond":
        return width * 1.35, height * 1.7
    return max(width, 80), height + (14 if node.shape == "store" else 0)


def layout(graph: Graph) -> dict[str, Box]:
    rows = layers(graph)
    sizes = {name: size(node) for name, node in graph.nodes.items()}
    labels = max((len(edge.label) for edge in graph.edges), default=0)
    along = GAP_ALONG + (0 if graph.down else labels * LETTER * 0.9)
    across = 0 if graph.down else 1
    lengths = [sum(sizes[n][across] for n in row) + GAP_ACROSS * (len(row) - 1) for row in rows]
    out, at = {}, EDGE + (LINE + 14 if graph.title else 0) + (24 if graph.groups else 0)
    for row, length in zip(rows, lengths):  # noqa: B905 - Python 3.9
        deep = max(sizes[name][1 - across] for name in row)
        side = EDGE + (max(lengths) - length) / 2 + (20 if graph.groups else 0)
        for name in row:
            width, height = sizes[name]
            if graph.down:
                out[name] = Box(side, at + (deep - height) / 2, width, height)
            else:
                out[name] = Box(at + (deep - width) / 2, side + LINE, width, height)
            side += sizes[name][across] + GAP_ACROSS
        at += deep + along
    return out


def border(box: Box, shape: str, towards: tuple[float, float]) -> tuple[float, float]:
    """Where a line from the middle of a box to a point leaves it."""
    x, y = box.middle
    dx, dy = towards[0] - x, towards[1] - y
    if not dx and not dy:
        return x, y
    half_w, half_h = box.width / 2, box.height / 2
    if shape == "diamond":
        scale = 1 / (abs(dx) / half_w + abs(dy) / half_h)
    else:
        scale = min(half_w / abs(dx) if dx else 1e9, half_h / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale


def ends(graph: Graph, boxes: dict[str, Box], edge: Edge) -> tuple[float, float, float, float]:
    first, last = boxes[edge.start], boxes[edge.end]
    shift = 0.0
    if any(e.start == edge.end and e.end == edge.start for e in graph.edges):
        shift = 12.0 if edge.start < edge.end else -12.0
    moved = [
        box._replace(x=box.x + shift) if graph.down else box._replace(y=box.y + shift)
        for box in (first, last)
    ]
    start = border(moved[0], graph.nodes[edge.start].shape, moved[1].middle)
    end = border(moved[1], graph.nodes[edge.end].shape, moved[0].middle)
    return *start, *end


def line_of(graph: Graph, boxes: dict[str, Box], edge: Edge) -> list[tuple[float, float]]:
    """The corners of an arrow: straight, or around the boxes that are in its way."""
    if edge.start == edge.end:
        b = boxes[edge.start]
        x, y = b.x + b.width, b.y + b.height / 2
        return [(x, y - 10), (x + 36, y - 10), (x + 36, y + 10), (x, y + 10)]
    x1, y1, x2, y2 = ends(graph, boxes, edge)
    others = [box for name, box in boxes.items() if name not in (edge.start, edge.end)]
    straight = [(x1, y1), (x2, y2)]
    if not hits(straight, others):
        return straight
    first, last = boxes[edge.start], boxes[edge.end]
    around = []
    for far in (1, 0):  # right of them or left, below them or above
        if graph.down:
            side = max(b.x + b.width for b in boxes.values()) + 26 if far else EDGE - 20
            one, two = ((b.x + b.width * far, b.middle[1]) for b in (first, last))
            around.append([one, (side, one[1]), (side, two[1]), two])
        else:
            low = min(b.y for b in boxes.values()) - 20
            side = max(b.y + b.height for b in boxes.values()) + 26 if far else low
            one, two = ((b.middle[0], b.y + b.height * far) for b in (first, last))
            around.append([one, (one[0], side), (two[0], side), two])
    return min(around, key=lambda points: hits(points, others))


def hits(points: list[tuple[float, float]], boxes: list[Box]) -> int:
    """How many boxes a line runs through."""
    steps = [
        (x1 + (x2 - x1) * n / 40, y1 + (y2 - y1) * n / 40)
        for (x1, y1), (x2, y2) in (points[at : at + 2] for at in range(len(points) - 1))
        for n in range(41)
    ]
    return sum(
        any(b.x - 4 < x < b.x + b.width + 4 and b.y - 4 < y < b.y + b.height + 4 for x, y in steps)
        for b in boxes
    )


def label_place(points: list[tuple[float, float]]) -> tuple[float, float]:
    first, last = points[len(points) // 2 - 1 : len(points) // 2 + 1]
    return (first[0] + last[0]) / 2, (first[1] + last[1]) / 2


def frames(graph: Graph, boxes: dict[str, Box]) -> list[tuple[str, Box]]:
    out = []
    for label, members in graph.groups.items():
        inside = [boxes[name] for name in members]
        left, top = min(b.x for b in inside) - 16, min(b.y for b in inside) - 34
        right = max(b.x + b.width for b in inside) + 16
        low = max(b.y + b.height for b in inside) + 16
        out.append((label, Box(left, top, max(right - left, len(label) * LETTER + 24), low - top)))
    return out


def drawn(node: Node, box: Box) -> str:
    x, y, w, h = (round(value, 1) for value in box)
    look = f'fill="{COLORS[node.shape]}" stroke="#5f6368" stroke-width="1.5"'
    if node.shape == "diamond":
        points = f"{x + w / 2},{y} {x + w},{y + h / 2} {x + w / 2},{y + h} {x},{y + h / 2}"
        return f'<polygon points="{points}" {look}/>'
    if node.shape == "store":
        path = f"M{x},{y + 8} a{w / 2},8 0 0 1 {w},0 v{h - 16} a{w / 2},8 0 0 1 {-w},0 z"
        return f'<path d="{path}" {look}/><path d="M{x},{y + 8} a{w / 2},8 0 0 0 {w},0" {look}/>'
    radius = h / 2 if node.shape == "round" else 6
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius:.1f}" {look}/>'


def words(text: str, x: float, y: float, more: str = "") -> str:
    lines = text.split("\n")
    top = y - (len(lines) - 1) * LINE / 2
    return "".join(
        f'<text x="{x:.1f}" y="{top + at * LINE:.1f}" text-anchor="middle"'
        f' dominant-baseline="central"{more}>{escape(line)}</text>'
        for at, line in enumerate(lines)
    )


def svg(graph: Graph) -> str:
    boxes = layout(graph)
    groups = frames(graph, boxes)
    every = [*boxes.values(), *(box for _, box in groups)]
    lines = [line_of(graph, boxes, edge) for edge in graph.edges]
    for edge, points in zip(graph.edges, lines):  # noqa: B905 - Python 3.9
        half = len(edge.label) * 3.5
        x, y = label_place(points)
        every += [Box(x - half, y, 2 * half, 8), *(Box(*point, 0, 0) for point in points)]
    width = max(max(b.x + b.width for b in every) + EDGE, len(graph.title) * 11 + 2 * EDGE)
    height = max(b.y + b.height for b in every) + EDGE
    left = min(0.0, min(b.x for b in every) - 10)
    width -= left
    name = escape(graph.title or "Diagram")
    out = [
        (
            '<svg xmlns="http://www.w3.org/2000/svg"'
            f' viewBox="{left:.0f} 0 {width:.0f} {height:.0f}"'
            f' width="{width:.0f}" height="{height:.0f}" role="img" font-size="14"'
            ' font-family="Helvetica, Arial, sans-serif" fill="#202124">'
        ),
        f"<title>{name}</title>",
        (
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"'
            ' markerHeight="8" orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z"'
            ' fill="#5f6368"/></marker></defs>'
        ),
        f'<rect x="{left:.0f}" width="100%" height="100%" fill="#ffffff"/>',
    ]
    if graph.title:
        out.append(words(graph.title, left + width / 2, EDGE, ' font-size="18" font-weight="bold"'))
    for label, b in groups:
        out.append(
            f'<rect x="{b.x:.1f}" y="{b.y:.1f}" width="{b.width:.1f}" height="{b.height:.1f}"'
            ' rx="8" fill="none" stroke="#9aa0a6" stroke-dasharray="4 4"/>'
        )
        text = f'<text x="{b.x + 10:.1f}" y="{b.y + 18:.1f}" fill="#5f6368" font-size="12">'
        out.append(f"{text}{escape(label)}</text>")
    texts = []
    for edge, points in zip(graph.edges, lines):  # noqa: B905 - Python 3.9
        look = 'fill="none" stroke="#5f6368" stroke-width="1.5"'
        look += ' stroke-dasharray="6 5"' if edge.arrow == "-->" else ""
        look += ' marker-end="url(#head)"' if edge.arrow != "--" else ""
        look += ' marker-start="url(#head)"' if edge.arrow == "<->" else ""
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<path d="M{path}" stroke-linejoin="round" {look}/>')
        if edge.label:
            # A white edge around the letters keeps them readable on the line.
            halo = ' font-size="12" stroke="#ffffff" stroke-width="5" paint-order="stroke"'
            texts.append(words(edge.label, *label_place(points), halo))
    for node in graph.nodes.values():
        out.append(drawn(node, boxes[node.name]))
        out.append(words(node.label, *boxes[node.name].middle))
    return "\n".join([*out, *texts, "</svg>"]) + "\n"


def mermaid(graph: Graph) -> str:
    marks = {"box": '["TEXT"]', "round": '("TEXT")', "diamond": '{"TEXT"}', "store": '[("TEXT")]'}
    title = json.dumps(graph.title, ensure_ascii=False)
    head = f"---\ntitle: {title}\n---\n" if graph.title else ""
    out = [f"{head}flowchart {'TD' if graph.down else 'LR'}"]
    grouped = {name for members in graph.groups.values() for name in members}

    def line(name: str) -> str:
        node = graph.nodes[name]
        text = node.label.replace('"', "#quot;").replace("\n", "<br>")
        return ident(name) + marks[node.shape].replace("TEXT", text)

    def ident(name: str) -> str:
        # `end` is a word of Mermaid.
        return f"{name}_" if name.lower() in ("end", "graph", "subgraph") else name

    out += [f"    {line(name)}" for name in graph.nodes if name not in grouped]
    for number, (label, members) in enumerate(graph.groups.items(), 1):
        out.append(f"    subgraph group{number}[{json.dumps(label, ensure_ascii=False)}]")
        out += [f"        {line(name)}" for name in members]
        out.append("    end")
    arrows = {"->": "-->", "-->": "-.->", "<->": "<-->", "--": "---"}
    for edge in graph.edges:
        label = edge.label.replace('"', "#quot;")
        text = f'|"{label}"|' if label else ""
        out.append(f"    {ident(edge.start)} {arrows[edge.arrow]}{text} {ident(edge.end)}")
    return "\n".join(out) + "\n"


def dot(graph: Graph) -> str:
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    shapes = {"box": "box", "round": "oval", "diamond": "diamond", "store": "cylinder"}
    out = ["digraph {", f"    rankdir={'TB' if graph.down else 'LR'};"]
    if graph.title:
        out.append(f"    label={quoted(graph.title)}; labelloc=t;")
    out.append('    node [fontname="Helvetica", style=filled, fillcolor="#e8f0fe"];')
    out.append('    edge [fontname="Helvetica", fontsize=11];')
    for node in graph.nodes.values():
        look = f"label={quoted(node.label)}, shape={shapes[node.shape]}"
        out.append(f"    {quoted(node.name)} [{look}];")
    for number, (label, members) in enumerate(graph.groups.items(), 1):
        inside = " ".join(f"{quoted(name)};" for name in members)
        look = f"label={quoted(label)}; style=dashed;"
        out.append(f"    subgraph cluster_{number} {{ {look} {inside} }}")
    looks = {"->": "", "-->": ", style=dashed", "<->": ", dir=both", "--": ", dir=none"}
    for edge in graph.edges:
        look = f"label={quoted(edge.label)}{looks[edge.arrow]}"
        out.append(f"    {quoted(edge.start)} -> {quoted(edge.end)} [{look}];")
    return "\n".join([*out, "}"]) + "\n"


def excalidraw(graph: Graph) -> str:
    boxes = layout(graph)
    elements: list[dict[str, object]] = []

    def element(kind: str, name: str, box: Box, **more: object) -> dict[str, object]:
        number = len(elements) + 1
        made: dict[str, object] = {
            "id": name, "type": kind, "x": box.x, "y": box.y, "width": box.width,
            "height": box.height, "angle": 0, "strokeColor": "#1e1e1e", "fillStyle": "solid",
            "backgroundColor": "transparent", "strokeWidth": 2, "strokeStyle": "solid",
            "roughness": 1, "opacity": 100, "groupIds": [], "frameId": None, "roundness": None,
            "seed": number, "version": 1, "versionNonce": number, "isDeleted": False,
            "boundElements": [], "updated": 1, "link": None, "locked": False, **more,
        }  # fmt: skip
        elements.append(made)
        return made

    def text(name: str, content: str, box: Box, holder: dict[str, object] | None) -> None:
        lines = content.split("\n")
        wide, high = max(map(len, lines)) * LETTER, len(lines) * LINE
        x, y = box.middle
        element(
            "text", name, Box(x - wide / 2, y - high / 2, wide, high), text=content, fontSize=16,
            fontFamily=2, textAlign="center", verticalAlign="middle", originalText=content,
            containerId=holder["id"] if holder else None, lineHeight=1.25, autoResize=True,
        )  # fmt: skip
        if holder:
            holder["boundElements"].append({"id": name, "type": "text"})  # type: ignore[attr-defined]

    for number, (label, box) in enumerate(frames(graph, boxes)):
        element("rectangle", f"group-{number}", box, strokeStyle="dashed")
        top = Box(box.x + 8, box.y + 4, len(label) * LETTER, LINE)
        text(f"group-{number}-text", label, top, None)
    kinds = {"box": "rectangle", "round": "rectangle", "diamond": "diamond", "store": "ellipse"}
    made = {}
    for node in graph.nodes.values():
        round_ = {"type": 3} if node.shape == "round" else None
        made[node.name] = element(
            kinds[node.shape], node.name, boxes[node.name], roundness=round_,
            backgroundColor=COLORS[node.shape],
        )  # fmt: skip
        text(f"{node.name}-text", node.label, boxes[node.name], made[node.name])
    for number, edge in enumerate(graph.edges):
        points = line_of(graph, boxes, edge)
        (x1, y1), xs, ys = points[0], [x for x, _ in points], [y for _, y in points]
        arrow = element(
            "arrow", f"arrow-{number}", Box(x1, y1, max(xs) - min(xs), max(ys) - min(ys)),
            points=[[x - x1, y - y1] for x, y in points],
            endArrowhead=None if edge.arrow == "--" else "arrow",
            startArrowhead="arrow" if edge.arrow == "<->" else None, lastCommittedPoint=None,
            strokeStyle="dashed" if edge.arrow == "-->" else "solid",
            startBinding={"elementId": edge.start, "focus": 0, "gap": 4},
            endBinding={"elementId": edge.end, "focus": 0, "gap": 4},
        )  # fmt: skip
        for name in {edge.start, edge.end}:
            made[name]["boundElements"].append({"id": arrow["id"], "type": "arrow"})  # type: ignore[attr-defined]
        if edge.label:
            middle = Box(*label_place(points), 0, 0)
            text(f"arrow-{number}-text", edge.label, middle, arrow)
    page = {"type": "excalidraw", "version": 2, "source": "diagram.py", "elements": elements}
    state = {"viewBackgroundColor": "#ffffff", "gridSize": None}
    return json.dumps({**page, "appState": state, "files": {}}, indent=1, ensure_ascii=False) + "\n"


FORMATS = {"svg": svg, "mermaid": mermaid, "dot": dot, "excalidraw": excalidraw}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="the text; - is standard input")
    parser.add_argument("--to", choices=FORMATS, default="svg")
    parser.add_argument("--out", type=Path, help="else standard output")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        if options.out and options.out.exists() and not options.force:
            raise Problem(f"{options.out} is already there; use --force to replace it")
        data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        graph = parse(data.decode("utf-8-sig"))
        made = FORMATS[options.to](graph)
        if options.out:
            options.out.write_text(made, encoding="utf-8")
            print(f"{options.out}: {len(graph.nodes)} boxes, {len(graph.edges)} arrows")
        else:
            print(made, end="")
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
