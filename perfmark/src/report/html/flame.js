// The flame graph: a frame is a mark's calls under one caller, or a function's; its width is their cost, or their samples. Their
// callees are below it; the part without callees below is self.

const flame = { kind: graph.length ? "calls" : "samples", tree: null, zoomed: null, focused: null, frames: new Map(), isBySelf: false };
const FRAME = 21;
/** From this depth on, the graph is in a window that can be resized. */
const DEEP = 20;

/** A number that depends only on the name (FNV-1a). */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  // Separates names that differ only in their last letter.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function pathTo(node) {
  const path = [];
  for (let at = node; at; at = at.above) path.unshift(at);
  return path;
}

/** The mark of a frame, or the one in which its function was called. */
const markOf = (node) => pathTo(node).findLast(({ mark }) => mark)?.mark;

function drawFlame() {
  const field = byId("flame");
  const width = field.clientWidth;
  if (!flame.tree || width === 0) return;
  const { root } = flame.tree;
  const zoomed = flame.zoomed ?? root;
  const hadFocus = field.contains(document.activeElement);
  const part = (size) => `${((size / width) * 100).toFixed(3)}%`;
  const fragment = document.createDocumentFragment();
  flame.frames.clear();
  let deepest = 0;
  const isSought = (node) => state.sought.length > 0 && node.sought !== undefined && state.sought.every((word) => node.sought.includes(word));
  const frame = (node, left, size, isAround) => {
    const row = node.depth + 1;
    deepest = Math.max(deepest, row);
    const share = flame.tree.shareOf(node);
    const drawn = make("div", { class: "frame", role: "treeitem", tabindex: -1, "aria-level": row + 1, "aria-label": `${node.label}, ${share}`, "aria-expanded": node.children.length ? "true" : undefined });
    if (size > 26) {
      const isWide = size > 8 * node.label.length;
      const isWider = size > 8 * (node.label.length + share.length + 2);
      drawn.textContent = isWide ? node.label : node.short || node.label;
      if (isWider) drawn.append(make("small", {}, share));
      drawn.classList.add("named");
    }
    Object.assign(drawn.style, { left: part(left), width: `calc(${part(size)} - 1px)`, top: `${row * FRAME}px` });
    if (node.callee) drawn.classList.add(node.callee.isInlined ? "inlined" : "function");
    if (!node.mark && !node.callee) drawn.classList.add("root");
    else if (flame.isBySelf) {
      drawn.classList.add("by-self");
      drawn.style.setProperty("--heat", `${(Math.sqrt(node.own / flame.tree.mostSelf) * 100).toFixed(1)}%`);
    } else {
      const hash = hashOf(node.color);
      drawn.style.setProperty("--hue", hash % 360);
      drawn.style.setProperty("--tone", `${((hash >>> 16) % 9) - 4}%`);
    }
    if (isAround) drawn.classList.add("ancestor");
    if (state.sought.length) drawn.classList.toggle("dim", !isSought(node));
    drawn.dataset.node = node.index;
    flame.frames.set(node.index, { node, drawn, left, row });
    fragment.append(drawn);
  };
  const rest = (left, row, { size, count, advice }) => {
    deepest = Math.max(deepest, row);
    const drawn = make("div", { class: "rest", "aria-hidden": "true" });
    Object.assign(drawn.style, { left: part(left), width: `calc(${part(size)} - 1px)`, top: `${row * FRAME}px` });
    drawn.dataset.text = `${counted(count, "frame")} too narrow to draw${advice}`;
    fragment.append(drawn);
  };
  for (const node of pathTo(zoomed).slice(0, -1)) frame(node, 0, width, true);
  const open = [[zoomed, 0, width]];
  // Samples are also in functions, which have no row.
  const seeTable = flame.kind === "calls" ? ": see the table" : "";
  while (open.length) {
    const [node, left, size] = open.pop();
    frame(node, left, size, false);
    let at = left;
    const narrow = { size: 0, count: 0, advice: "" };
    for (const child of node.children) {
      const wide = node.width > 0 ? (child.width / node.width) * size : 0;
      if (wide >= 2) open.push([child, at, wide]);
      else if (wide > 0) {
        // The first is the widest.
        if (narrow.count === 0) narrow.advice = wide * (width / size) >= 2 ? ": zoom in to see" : seeTable;
        narrow.size += wide;
        narrow.count += 1;
      }
      at += wide;
    }
    // The children are ordered by width, so that narrow ones are adjacent.
    if (narrow.size >= 1) rest(at - narrow.size, node.depth + 2, narrow);
  }
  field.replaceChildren(fragment);
  field.style.height = `${(deepest + 1) * FRAME}px`;
  field.parentElement.classList.toggle("tall", deepest >= DEEP);
  const focused = flame.frames.get(flame.focused ?? zoomed.index) ?? flame.frames.get(zoomed.index);
  focused.drawn.tabIndex = 0;
  if (hadFocus) focused.drawn.focus({ preventScroll: true });
  const crumbs = pathTo(zoomed);
  byId("crumbs").replaceChildren(...crumbs.map((node, index) =>
    make("li", {}, index === crumbs.length - 1
      ? make("span", { "aria-current": "true" }, node.label)
      : make("button", { type: "button", onclick: () => zoomTo(node) }, node.label))));
  byId("open-zoomed").hidden = !markOf(zoomed);
  byId("zoom-out").disabled = zoomed === root;
}

function zoomTo(node) {
  flame.zoomed = node;
  flame.focused = node.index;
  hideTip();
  drawFlame();
}

const zoomOut = () => flame.zoomed?.above && zoomTo(flame.zoomed.above);

/** The flame graph of another event, or of samples. */
function changeFlame(kind = flame.kind) {
  const samples = sampled[state.sampling];
  if (!graph.length && !samples) return;
  const isSame = kind === flame.kind && (kind === "calls" || flame.samples === samples);
  const zoomed = isSame ? flame.zoomed?.index : undefined;
  Object.assign(flame, { kind, samples });
  const isOfCalls = kind === "calls";
  flame.tree = isOfCalls ? treeOfCalls(state.event) : treeOfSamples(samples);
  byId("graph-title").textContent = graph.length && samples ? "Flame graph" : isOfCalls ? "Call graph" : "Samples";
  byId("flame-kind").value = kind;
  byId("flame-sampling").replaceChildren(...(isOfCalls ? [] : samplingSelect("flame")));
  flame.zoomed = flame.tree.nodes[zoomed] ?? flame.tree.root;
  const isEmpty = !(flame.tree.root.width > 0);
  byId("flame").hidden = isEmpty;
  byId("no-flame").hidden = !isEmpty;
  byId("no-flame").textContent = !isOfCalls ? "There are no samples." : state.event === undefined ? "Nothing was measured." : `No call of the graph was measured in ${state.event}.`;
  drawFlame();
}

/** The frame that an arrow key moves to. */
function nextFrame(key, { node, row, left }) {
  if (key === "ArrowUp") return node.above && flame.frames.get(node.above.index);
  if (key === "ArrowDown") return node.children.map((child) => flame.frames.get(child.index)).find(Boolean);
  const beside = [...flame.frames.values()].filter((other) => other.row === row).sort((one, other) => one.left - other.left);
  return beside[beside.findIndex((other) => other.left === left) + (key === "ArrowRight" ? 1 : -1)];
}

function setUpFlame() {
  const hasBoth = graph.length > 0 && sampled.length > 0;
  byId("graph").hidden = graph.length === 0 && sampled.length === 0;
  byId("flame-kinds").hidden = !hasBoth;
  byId("flame-kind").addEventListener("change", (event) => changeFlame(event.target.value));
  byId("no-graph").hidden = graph.length > 0 || !marks.some((mark) => mark.isCalled);
  if (byId("graph").hidden) return;
  const field = byId("flame");
  const frameAt = (target) => flame.frames.get(Number(target.closest?.(".frame")?.dataset.node ?? NaN));
  field.addEventListener("click", (event) => {
    const found = frameAt(event.target);
    if (found) zoomTo(found.node);
  });
  field.addEventListener("pointermove", (event) => {
    const text = event.target.closest(".rest")?.dataset.text ?? (frameAt(event.target) && flame.tree.textOf(frameAt(event.target).node));
    if (text) showTip(text, event);
    else hideTip();
  });
  field.addEventListener("pointerleave", hideTip);
  field.addEventListener("focusin", (event) => {
    const found = frameAt(event.target);
    if (!found) return;
    for (const { drawn } of flame.frames.values()) drawn.tabIndex = -1;
    found.drawn.tabIndex = 0;
    flame.focused = found.node.index;
    if (event.target.matches(":focus-visible")) showTip(flame.tree.textOf(found.node), found.drawn.getBoundingClientRect());
  });
  field.addEventListener("focusout", hideTip);
  field.addEventListener("keydown", (event) => {
    const found = frameAt(event.target);
    if (!found) return;
    if (event.key.startsWith("Arrow")) nextFrame(event.key, found)?.drawn.focus();
    else if (event.key === "Enter" || event.key === " ") zoomTo(found.node);
    else if ((event.key === "Escape" || event.key === "Backspace") && flame.zoomed?.above) zoomOut();
    else if (event.key === "Home") zoomTo(flame.tree.root);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  byId("zoom-out").addEventListener("click", zoomOut);
  byId("open-zoomed").addEventListener("click", () => flame.zoomed && showMark(markOf(flame.zoomed)));
  byId("colours").addEventListener("change", (event) => {
    flame.isBySelf = event.target.value === "self";
    drawFlame();
  });
  let width = 0;
  new ResizeObserver(() => {
    if (field.clientWidth === width) return;
    width = field.clientWidth;
    drawFlame();
  }).observe(field);
}
