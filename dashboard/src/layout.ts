// Where nodes are. Only the shape of the graph matters here, not its figures, so a layout lasts as long as the shape does.

import dagre from "@dagrejs/dagre";
import type { Edge, Node } from "./model";

export const CARD = { width: 164, height: 46 };
/** Room for the figures of an edge. */
const LABEL = { width: 88, height: 16 };
/** Graphs with at most so many edges have figures at each edge. */
export const LABELS_MAX = 16;
/** Beyond these, layers say nothing or take longer than a person waits; nodes are then in rows. */
const NODES_MAX = 120;
const DENSE_NODES_MIN = 24;
const DENSE_EDGES_OF_NODE = 3;

export interface Point { x: number; y: number }
export interface Box extends Point { width: number; height: number }
export interface Layout {
  /** From top to bottom, not from left to right. */
  isTall: boolean;
  /** Without layers: edges say nothing about places. */
  isInRows: boolean;
  /** Top left corners. */
  nodes: Map<string, Point>;
  /** Points of an edge and the middle of its label. */
  routes: Map<string, { points: Point[]; label: Point }>;
  namespaces: { name: string; box: Box }[];
  width: number;
  height: number;
}

/** What a layout depends on. */
export function shape(nodes: Node[], edges: Edge[]): string {
  const ids = nodes.map((node) => node.id).join(" ");
  return isInRows(nodes, edges) ? ids : `${ids}|${edges.map((edge) => edge.key).sort().join(" ")}`;
}

function isInRows(nodes: Node[], edges: Edge[]): boolean {
  return nodes.length > NODES_MAX || (nodes.length > DENSE_NODES_MIN && edges.length > nodes.length * DENSE_EDGES_OF_NODE);
}

/** The layout that is largest in a room of this size. */
export function layout(nodes: Node[], edges: Edge[], room: { width: number; height: number }): Layout {
  if (!nodes.length) return inRows();
  if (isInRows(nodes, edges)) return nodes.length > NODES_MAX ? blocks(nodes, room) : rows(nodes, room);
  const scale = (one: Layout) => Math.min(room.width / one.width, room.height / one.height, 1);
  const close = layered(nodes, edges, false, 1);
  const tall = layered(nodes, edges, true, 1);
  // From left to right reads better, so the other has to be clearly larger.
  if (scale(tall) > scale(close) * 1.15) return tall;
  // Room that is left is room for edges.
  for (const air of nodes.length > 40 ? [2] : [4, 2.5, 1.6]) {
    const airy = layered(nodes, edges, false, air);
    if (scale(airy) > scale(close) * 0.93) return airy;
  }
  return close;
}

function layered(nodes: Node[], edges: Edge[], isTall: boolean, air: number): Layout {
  const graph = new dagre.graphlib.Graph({ compound: true, multigraph: false, directed: true });
  const hasLabels = edges.length <= LABELS_MAX;
  const boxed = new Set(nodes.filter((node) => node.kind !== "namespace" && node.namespace !== "").map((node) => node.namespace));
  // One namespace alone needs no box to tell it from others.
  const isBoxed = boxed.size > 1 || (boxed.size > 0 && nodes.some((node) => node.kind === "namespace"));
  // The borders of boxes are layers of their own.
  graph.setGraph({ rankdir: isTall ? "TB" : "LR", nodesep: isTall ? 22 : 16, ranksep: air * (isBoxed ? 17 : hasLabels ? 16 : 44), edgesep: 8, marginx: 4, marginy: isBoxed ? 12 : 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { ...CARD });
  if (isBoxed) {
    for (const name of boxed) graph.setNode(`box:${name}`, {});
    for (const node of nodes) if (node.kind !== "namespace" && node.namespace !== "") graph.setParent(node.id, `box:${node.namespace}`);
  }
  const own = edges.filter((edge) => edge.from !== edge.to);
  for (const edge of own) graph.setEdge(edge.from, edge.to, hasLabels ? { ...LABEL, labelpos: "c" } : {});
  dagre.layout(graph);
  const result: Layout = { isTall, isInRows: false, nodes: new Map(), routes: new Map(), namespaces: [], width: graph.graph().width ?? 0, height: graph.graph().height ?? 0 };
  for (const node of nodes) {
    const place = graph.node(node.id) as Point;
    result.nodes.set(node.id, { x: place.x - CARD.width / 2, y: place.y - CARD.height / 2 });
  }
  const ports = portsOf(own, result);
  for (const edge of own) {
    const route = graph.edge(edge.from, edge.to) as { points?: Point[]; x?: number; y?: number } | undefined;
    const [start, end] = ports.get(edge.key)!;
    // The first and the last point are where dagre meets the card, which may be any side of it.
    const between = (route?.points ?? []).slice(1, -1);
    const points = [start, ...between.filter((point) => isBetween(point, start, end, isTall)), end];
    result.routes.set(edge.key, { points, label: hasLabels && route?.x !== undefined ? { x: route.x, y: route.y! } : middle(points) });
  }
  if (isBoxed) {
    for (const name of boxed) {
      const box = graph.node(`box:${name}`) as Box;
      result.namespaces.push({ name, box: { x: box.x - box.width / 2, y: box.y - box.height / 2 - 10, width: box.width, height: box.height + 10 } });
    }
  }
  return result;
}

function isBetween(point: Point, start: Point, end: Point, isTall: boolean): boolean {
  const [low, high] = isTall ? [Math.min(start.y, end.y), Math.max(start.y, end.y)] : [Math.min(start.x, end.x), Math.max(start.x, end.x)];
  const value = isTall ? point.y : point.x;
  return value > low + 4 && value < high - 4;
}

/** Where edges leave and arrive: spread over the side that faces the other end, in the order of the other ends. */
function portsOf(edges: Edge[], places: Layout): Map<string, [Point, Point]> {
  const { isTall } = places;
  const at = (id: string) => places.nodes.get(id)!;
  const along = (point: Point) => (isTall ? point.y : point.x);
  const across = (point: Point) => (isTall ? point.x : point.y);
  const sides = new Map<string, { edge: Edge; isStart: boolean; other: number }[]>();
  for (const edge of edges) {
    const isForward = along(at(edge.to)) >= along(at(edge.from));
    const put = (id: string, isFar: boolean, isStart: boolean, other: string) => {
      const key = `${id}|${isFar}`;
      sides.set(key, [...(sides.get(key) ?? []), { edge, isStart, other: across(at(other)) }]);
    };
    put(edge.from, isForward, true, edge.to);
    put(edge.to, !isForward, false, edge.from);
  }
  const ports = new Map<string, [Point, Point]>(edges.map((edge) => [edge.key, [at(edge.from), at(edge.to)]]));
  const [length, depth] = isTall ? [CARD.width, CARD.height] : [CARD.height, CARD.width];
  for (const [key, ends] of sides) {
    const [id, isFar] = key.split("|") as [string, string];
    const place = at(id);
    ends.sort((a, b) => a.other - b.other);
    const step = Math.min(isTall ? 18 : 9, (length - 16) / Math.max(1, ends.length));
    ends.forEach((end, index) => {
      const offset = length / 2 + (index - (ends.length - 1) / 2) * step;
      const edge = isFar === "true" ? depth : 0;
      const point = isTall ? { x: place.x + offset, y: place.y + edge } : { x: place.x + edge, y: place.y + offset };
      ports.get(end.edge.key)![end.isStart ? 0 : 1] = point;
    });
  }
  return ports;
}

/** Rows of cards in the order of names, as wide as the room. */
function rows(nodes: Node[], room: { width: number; height: number }): Layout {
  const result = inRows();
  const [stepX, stepY] = [CARD.width + 46, CARD.height + 46];
  const across = Math.max(2, Math.round(Math.sqrt((nodes.length * stepY * room.width) / (stepX * Math.max(1, room.height)))));
  nodes.forEach((node, index) => result.nodes.set(node.id, { x: 4 + (index % across) * stepX, y: 4 + Math.floor(index / across) * stepY }));
  result.width = Math.min(across, nodes.length) * stepX - 38;
  result.height = Math.ceil(nodes.length / across) * stepY - 38;
  return result;
}

const inRows = (): Layout => ({ isTall: false, isInRows: true, nodes: new Map(), routes: new Map(), namespaces: [], width: 0, height: 0 });

/** A block of cards for each namespace, in rows of blocks. */
function blocks(nodes: Node[], room: { width: number; height: number }): Layout {
  const result = inRows();
  const groups = new Map<string, Node[]>();
  for (const node of nodes) groups.set(node.namespace, [...(groups.get(node.namespace) ?? []), node]);
  const [stepX, stepY] = [CARD.width + 20, CARD.height + 16];
  const area = [...groups.values()].reduce((sum, members) => sum + (members.length + 2) * stepX * stepY, 0);
  const wide = Math.max(stepX * 4, Math.sqrt((area * 1.25 * room.width) / Math.max(1, room.height)));
  let [x, y, tallest] = [8, 8, 0];
  for (const [name, members] of groups) {
    const across = Math.max(1, Math.min(members.length, Math.ceil(Math.sqrt(members.length * 0.6))));
    const box = { width: across * stepX + 12, height: Math.ceil(members.length / across) * stepY + 34 };
    if (x > 8 && x + box.width > wide) [x, y, tallest] = [8, y + tallest + 28, 0];
    members.forEach((node, index) => {
      result.nodes.set(node.id, { x: x + 16 + (index % across) * stepX, y: y + 28 + Math.floor(index / across) * stepY });
    });
    if (name) result.namespaces.push({ name, box: { x, y, ...box } });
    tallest = Math.max(tallest, box.height);
    x += box.width + 28;
    result.width = Math.max(result.width, x - 20);
    result.height = y + tallest + 8;
  }
  return result;
}

/** The middle of the longest part: bends are often close to cards. */
function middle(points: Point[]): Point {
  const parts = points.slice(1).map((to, index) => [points[index]!, to] as const);
  const length = ([a, b]: readonly [Point, Point]) => Math.hypot(b.x - a.x, b.y - a.y);
  const [a, b] = parts.reduce((longest, part) => (length(part) > length(longest) ? part : longest));
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

/** From the middle of a side to the middle of the facing side, where the layout has no route. */
export function straight(a: Point, b: Point, isTall: boolean): { points: Point[]; label: Point } {
  const from = { x: a.x + CARD.width / 2, y: a.y + CARD.height / 2 };
  const to = { x: b.x + CARD.width / 2, y: b.y + CARD.height / 2 };
  const along = isTall ? to.y > from.y : to.x > from.x;
  const side = (point: Point, sign: number) =>
    isTall ? { x: point.x, y: point.y + (sign * CARD.height) / 2 } : { x: point.x + (sign * CARD.width) / 2, y: point.y };
  const [start, end] = [side(from, along ? 1 : -1), side(to, along ? -1 : 1)];
  return { points: [start, end], label: { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 } };
}

/** A smooth path through the points, which leaves and arrives in the direction of the layout. */
export function path(points: Point[], isTall: boolean): string {
  const first = points[0]!;
  const n = (value: number) => value.toFixed(1);
  let text = `M${n(first.x)} ${n(first.y)}`;
  let from = first;
  for (const to of points.slice(1)) {
    const [dx, dy] = [(to.x - from.x) / 2, (to.y - from.y) / 2];
    const [a, b] = isTall
      ? [{ x: from.x, y: from.y + dy }, { x: to.x, y: to.y - dy }]
      : [{ x: from.x + dx, y: from.y }, { x: to.x - dx, y: to.y }];
    text += `C${n(a.x)} ${n(a.y)} ${n(b.x)} ${n(b.y)} ${n(to.x)} ${n(to.y)}`;
    from = to;
  }
  return text;
}
