// The trees that the flame graph can draw: the call graph, and samples.

const graph = snapshot.call_graph;

/** A node of a mark. */
const ofMark = (mark) => ({ mark, label: mark?.label || "(no name)", short: mark?.name, color: `${mark?.path}${mark?.name}`, sought: mark?.sought ?? "" });

/** A tree of nodes that have their parents before them. The children of each are ordered by width. */
function finished(root, nodes, textOf, shareOf) {
  for (const node of [root, ...nodes]) node.children.sort((one, other) => other.width - one.width || one.index - other.index);
  return { root, nodes, textOf, shareOf, mostSelf: nodes.reduce((most, node) => Math.max(most, node.own), 1) };
}

const newRoot = (label) => ({ index: -1, label, width: 0, own: 0, depth: -1, above: null, children: [] });

/** The call graph in an event. If a frame's calls were not measured, its width is that of its callees. */
function treeOfCalls(event) {
  const nodes = graph.map((node, index) => {
    const values = valuesOfNode(node, event);
    return { ...ofMark(marks[node.mark]), node, index, values, flags: values ?? NOTHING, own: Math.max(0, Number(values?.self ?? 0)), width: Math.max(0, Number(values?.sum ?? 0)), inside: 0, depth: 0, above: null, children: [] };
  });
  const root = { ...newRoot("all marks"), inside: 0 };
  for (const node of nodes) {
    node.above = nodes[node.node.parent] ?? root;
    node.depth = node.above.depth + 1;
    node.above.children.push(node);
  }
  for (const node of [root, ...nodes].toReversed()) {
    if (node.inside > node.width) Object.assign(node, { width: node.inside, flags: flagsOfAll(node.children) });
    if (node !== root) node.above.inside += node.width;
  }
  const share = shareOfCalls(root, event);
  return finished(root, nodes, (node) => textOfCalls(node, root, event, share), (node) => share(node.flags, "sum", node.width));
}

/** The flags of a sum over nodes. */
function flagsOfAll(nodes) {
  const estimates = nodes.map(({ flags }) => flags).filter(({ isEstimate }) => isEstimate);
  // Of others, only self may be an estimate.
  return { ...NOTHING, sum: 0, isEstimate: estimates.length > 0, isImpossible: estimates.some(({ isImpossible }) => isImpossible) };
}

/** A part of everything in outermost marks, with the flags of the values that it is of. */
const shareOfCalls = (root, event) => (values, key, part) => {
  const share = percent(BigInt(Math.round(part)), BigInt(Math.round(root.width)));
  return shown(ofSum(values, key, () => flagged(share, IMPOSSIBLE, impossibleSums.has(event))));
};

/** The tooltip of a frame of the call graph. */
function textOfCalls(node, root, event, share) {
  const unit = unitOf(event);
  const { values, flags } = node;
  if (node === root) return `all: ${shown(ofSum(flags, "sum", () => real(node.width, unit)))} of ${event} in outermost marks`;
  const sum = (name, key, part) =>
    `${name}: ${shown(ofSum(values, key, (value) => integer(value, unit)))} (${share(values, key, part)} of all)`;
  const lines = [node.mark?.path || node.label];
  if (values) {
    lines.push(sum(event, "sum", node.width));
    if (values.self !== null) lines.push(sum("self", "self", node.own));
  } else {
    lines.push(`${event}: not measured`);
  }
  lines.push(`${exact(node.node.calls)} call${BigInt(node.node.calls) === 1n ? "" : "s"}${node.above.mark ? ` under ${node.above.label}` : ""}`);
  // If some calls were skipped, it is unknown how many calls the sum stands for.
  const all = node.mark && allValuesOf(node.mark, event);
  if (values?.measured > 0 && all?.measured === all?.weight) {
    lines.push(`per call: ${shown(ofCall({ ...values, mean: Number(values.sum) / Number(values.measured) }, "mean", unit))}`);
  }
  return lines.join("\n");
}

/** Samples by paths of marks, and below these by functions. */
function treeOfSamples(samples) {
  const root = newRoot(samples.whole);
  const nodes = [];
  const under = new Map([[root, new Map()]]);
  const add = (above, fields) => {
    const node = { index: nodes.length, width: 0, own: 0, depth: above.depth + 1, above, children: [], ...fields };
    nodes.push(node);
    above.children.push(node);
    under.set(node, new Map());
    return node;
  };
  const child = (above, key, fields) => {
    const known = under.get(above);
    if (!known.has(key)) known.set(key, add(above, fields));
    return known.get(key);
  };
  const without = (label, about) => ({ label, color: label, sought: "", about });
  const tops = new Map();
  samples.paths.forEach((path, index) => {
    let node = root;
    for (const mark of path.marks) node = child(node, mark, ofMark(marks[mark]));
    if (node === root) node = child(root, "outside", without("outside marks", "outside of all marks"));
    if (path.thread !== null) node = child(node, path.thread, without(`thread ${path.thread}`, "outside of all marks"));
    if (!tops.has(node)) tops.set(node, newCallee({}));
    path.stacks.forEach((stack, ofStack) => {
      const frames = framesOf(samples, stack);
      // Without the marked function, nobody knows which callers are inside the mark.
      const outermost = path.marks.length === 0 ? frames.length : frames.findLastIndex(({ depth }) => depth === 0) + 1;
      const end = samples.own[index][ofStack] ?? outermost;
      const ofPerfmark = Math.min(samples.probe[index][ofStack], end);
      const probe = ofPerfmark > 0 ? [ofProbe] : [];
      frames.splice(0, ofPerfmark, ...probe);
      addCallees(tops.get(node), frames, end - ofPerfmark + probe.length - 1, Number(stack.samples), 0);
    });
  });
  const addFunctions = (node, callee) => {
    node.own = callee.own;
    for (const inner of callee.children.values()) {
      const label = nameOfCallee(inner);
      const short = inner.code.isNamed ? label.replace(/::<.*>$/, "").split("::").at(-1) : label;
      addFunctions(add(node, { callee: inner, label, short, color: inner.code.name, sought: label.toLowerCase() }), inner);
    }
  };
  for (const [node, callee] of tops) addFunctions(node, callee);
  const unattributed = Number(samples.unattributed);
  if (unattributed > 0) add(root, { ...without("unknown", "not attributed: calls that were still open, too deep, began before sampling, or are unknown"), own: unattributed });
  // A function's node comes after that of its caller, but a mark's may come after functions of its caller.
  for (const node of nodes.toSorted((one, other) => other.depth - one.depth)) {
    node.width += node.own;
    node.above.width += node.width;
  }
  const shareOf = (node) => (node === root ? "" : shareOfSamples(node.width, root.width, samples.isBiased));
  return finished(root, nodes, (node) => textOfSamples(node, root, samples), shareOf);
}

/** The tooltip of a frame of samples. */
function textOfSamples(node, root, samples) {
  const share = (part) => `${countOfSamples(part)}, ${shareOfSamples(part, root.width, samples.isBiased)} of ${samples.whole}`;
  if (node === root) return `${root.label}: ${exact(root.width)} of ${samples.rate}`;
  const lines = [node.mark?.path || node.label];
  if (node.about) lines.push(node.about);
  if (node.callee?.isInlined) lines.push("inlined");
  lines.push(share(node.width));
  if (node.own > 0 && node.children.length > 0) lines.push(`in itself: ${share(node.own)}`);
  const places = node.callee ? placesOf(node.callee).filter(([place]) => place && place !== node.label) : [];
  for (const [place, count] of places.slice(0, 5)) lines.push(`${countOfSamples(count)} at ${place}`);
  if (places.length > 5) lines.push(`and ${exact(places.length - 5)} more places`);
  return lines.join("\n");
}
