// Distributions, drawn from buckets, on logarithmic axes.

/** The position of a value on a logarithmic axis; 0 is below 1. */
const level = (value) => Math.log2(Math.max(Number(value), 0.5));

/** Maps values from `low` to `high` to positions from `from` to `to`. */
function scale(low, high, from, to) {
  let [first, last] = [level(low), level(high)];
  if (last - first < 1e-9) [first, last] = [first - 0.5, last + 0.5];
  const at = (value) => from + Math.min(1, Math.max(0, (level(value) - first) / (last - first))) * (to - from);
  return Object.assign(at, { low: 2 ** first, high: 2 ** last, from, to });
}

const ROUND = [1, 2, 5];
const DECADES = Array.from({ length: 21 }, (_, ten) => 10 ** ten);
const MINUTE = 60e9;
const TIMES = [
  ...DECADES.slice(0, 11),
  ...[1, 10].map((n) => n * MINUTE),
  ...[1, 10].map((n) => n * 60 * MINUTE),
  ...[1, 10, 100].map((n) => n * 1440 * MINUTE),
  ...[1, 10, 100].map((n) => n * 365 * 1440 * MINUTE),
];

/** A round number of at least that size. */
function roundStep(size) {
  const ten = 10 ** Math.floor(Math.log10(size));
  return ten * ([...ROUND, 10].find((by) => by * ten >= size) ?? 10);
}

/** Values for an axis and their text, no nearer to each other than `gap`. */
function ticks(at, unit, gap) {
  const decades = unit === "ns" ? TIMES : DECADES;
  const isIn = (value) => value >= at.low * (1 - 1e-12) && value <= at.high * (1 + 1e-12);
  let values = decades.filter(isIn);
  if (values.length < 3) {
    const fine = decades.flatMap((ten, index) => ROUND.map((by) => by * ten).filter((value) => !(value >= decades[index + 1])));
    values = fine.filter(isIn);
  }
  if (values.length < 3) {
    const step = Math.max(1, roundStep((at.high - at.low) / 4));
    values = [];
    for (let value = Math.ceil((at.low / step) * (1 - 1e-12)) * step; isIn(value) && values.length < 12; value += step) values.push(value);
  }
  if (at.low < 1) values.unshift(0);
  const kept = [];
  for (const value of values) {
    if (kept.every((other) => Math.abs(at(other) - at(value)) >= gap)) kept.push(value);
  }
  const short = (value) => {
    const { number, unit: name } = integer(BigInt(Math.round(value)), unit);
    return shown({ number: number.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""), unit: name });
  };
  const texts = kept.map(short);
  const areApart = new Set(texts).size === texts.length;
  return kept.map((value, index) => ({ value, text: areApart ? texts[index] : exact(BigInt(Math.round(value))) }));
}

/** The part of a bucket between the smallest and the largest call. */
function within([low, high, count], { min, max }) {
  const from = min !== null && min > low && min <= high ? min : low;
  const to = max !== null && max < high && max >= from ? max : high;
  return [from, to, count];
}

/** Buckets, merged if they would be narrower than `least`. */
function bins(values, at, least) {
  const all = [];
  for (const bucket of bucketsOf(values)) {
    const [low, high, count] = within(bucket, values);
    const [from, to] = [at(low), at(Number(high) + 1)];
    const last = all.at(-1);
    if (last && to - last.from <= least) {
      Object.assign(last, { high, to, count: Number(last.count) + Number(count), exact: BigInt(last.exact) + BigInt(count) });
    } else {
      all.push({ low, high, from, to, count: Number(count), exact: BigInt(count) });
    }
  }
  for (const bin of all) bin.height = bin.count / Math.max(bin.to - bin.from, least);
  return all;
}

/** The range from the smallest to the largest value, if there is any. */
function rangeOf(all) {
  let [low, high] = [Infinity, 0];
  for (const values of all) {
    const [least, most] = [values.min ?? bucketsOf(values)[0]?.[0], values.max ?? bucketsOf(values).at(-1)?.[1]];
    if (least === undefined || most === undefined) continue;
    low = Math.min(low, Number(least), Number(most));
    high = Math.max(high, Number(least), Number(most));
  }
  return low <= high ? { low, high } : undefined;
}

const bar = (from, to, height, floor) => `M${from.toFixed(1)} ${floor}V${(floor - height).toFixed(1)}H${to.toFixed(1)}V${floor}Z`;

/** A distribution of the height of a line, on an axis that all rows of the event share. */
function sparkline(values, range, unit) {
  const [width, height] = [120, 20];
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "spark", role: "img" });
  const all = bins(values, scale(range.low, range.high, 1, width - 3), 2);
  const most = Math.max(...all.map((bin) => bin.height));
  const path = all.map((bin) => bar(bin.from, Math.max(bin.to, bin.from + 2), Math.max(1, (bin.height / most) * (height - 2)), height)).join("");
  drawn.setAttribute("aria-label", `from ${shown(ofCall(values, "min", unit))} to ${shown(ofCall(values, "max", unit))}`);
  drawn.append(svg("path", { d: path, class: "bars" }));
  return drawn;
}

const SIZE = { width: 380, height: 210, left: 10, right: 14, top: 22, bottom: 26 };

function label(x, y, text, anchor, name = "tick") {
  return svg("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, class: name }, text);
}

/** Follows the pointer with a line and a text. */
function follow(drawn, textAt) {
  const line = svg("path", { class: "pointer" });
  drawn.append(line);
  drawn.addEventListener("pointermove", (event) => {
    const box = drawn.getBoundingClientRect();
    const found = textAt(((event.clientX - box.left) / box.width) * SIZE.width);
    if (!found) return;
    line.setAttribute("d", `M${found.x.toFixed(1)} ${SIZE.top}V${SIZE.height - SIZE.bottom}`);
    showTip(found.text, event);
  });
  drawn.addEventListener("pointerleave", () => {
    line.removeAttribute("d");
    hideTip();
  });
}

/** A number of calls, as a share or counted, flagged if few of them were measured, or their costs were scaled. */
const ofCalls = (values, quantity) => shown(flagged(quantity, ESTIMATE, values.weight !== values.measured || values.scaled > 0));
const countOfCalls = (values, count) => ofCalls(values, { number: exact(count), unit: "" });

/** The histogram: calls by cost. */
function histogram(values, unit) {
  const floor = SIZE.height - SIZE.bottom;
  const { low, high } = rangeOf([values]);
  const at = scale(low, Number(high) + 1, SIZE.left, SIZE.width - SIZE.right);
  const drawn = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "plot", role: "img" });
  drawn.setAttribute("aria-label", `Histogram: ${counted(values.weight, "call")} from ${shown(ofCall(values, "min", unit))} to ${shown(ofCall(values, "max", unit))}`);
  const middle = (SIZE.left + SIZE.width - SIZE.right) / 2;
  const isOneValue = low === high;
  for (const { value, text } of isOneValue ? [{ value: low, text: shown(integer(values.min ?? BigInt(Math.round(low)), unit)) }] : ticks(at, unit, 54)) {
    const x = isOneValue ? middle : at(value);
    drawn.append(svg("path", { d: `M${x.toFixed(1)} ${SIZE.top}V${floor + 4}`, class: "grid" }));
    drawn.append(label(Math.min(Math.max(x, 14), SIZE.width - 16), floor + 17, text, "middle"));
  }
  // The bar of a single value would be as wide as the plot.
  const all = bins(values, at, 3.5).map((bin) => (isOneValue ? { ...bin, from: middle - 6, to: middle + 6 } : bin));
  const most = Math.max(...all.map((bin) => bin.height));
  const bars = all.map((bin) => bar(bin.from, Math.max(bin.to, bin.from + 2), Math.max(1.5, (bin.height / most) * (floor - SIZE.top)), floor));
  drawn.append(svg("path", { d: bars.join(""), class: "bars" }), svg("path", { d: `M${SIZE.left} ${floor}H${SIZE.width - SIZE.right}`, class: "axis" }));
  const taken = [];
  for (const [key, text] of isOneValue ? [] : [["max", "max"], ["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["p999", "p99.9"]]) {
    if (values[key] === null) continue;
    const x = at(values[key]);
    drawn.append(svg("path", { d: `M${x.toFixed(1)} ${SIZE.top}V${floor}`, class: "quantile" }));
    if (taken.some((other) => Math.abs(other - x) < 31)) continue;
    taken.push(x);
    drawn.append(label(Math.min(x, SIZE.width - 13), SIZE.top - 7, text, "middle", "quantile"));
  }
  follow(drawn, (x) => {
    const bin = all.reduce((near, other) => (Math.abs((other.from + other.to) / 2 - x) < Math.abs((near.from + near.to) / 2 - x) ? other : near), all[0]);
    if (!bin) return undefined;
    const ends = [bin.low, bin.high].map((value) => shown(integer(value, unit)));
    const between = ends[0] === ends[1] ? ends[0] : `${ends[0]} to ${ends[1]}`;
    return { x: (bin.from + bin.to) / 2, text: `${between}\n${countOfCalls(values, bin.exact)} of ${countOfCalls(values, values.weight)} calls, ${ofCalls(values, percent(bin.exact, values.weight))}` };
  });
  return drawn;
}

/** Cost by percentile. */
function percentiles(values, unit) {
  const floor = SIZE.height - SIZE.bottom;
  const left = 58;
  const all = bucketsOf(values).map((bucket) => within(bucket, values));
  const count = all.reduce((sum, bucket) => sum + Number(bucket[2]), 0);
  const { low, high } = rangeOf([values]);
  const at = scale(low, high, floor - 4, SIZE.top);
  const across = scale(1, Math.max(count, 10), left, SIZE.width - SIZE.right);
  const drawn = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "plot", role: "img" });
  drawn.setAttribute("aria-label", `Percentiles: half the calls at most ${shown(ofCall(values, "p50", unit))}, 99 in a hundred at most ${shown(ofCall(values, "p99", unit))}`);
  for (const { value, text } of ticks(at, unit, 20)) {
    const y = at(value);
    drawn.append(svg("path", { d: `M${left} ${y.toFixed(1)}H${SIZE.width - SIZE.right}`, class: "grid" }), label(left - 6, y + 4, text, "end"));
  }
  const taken = [];
  const mark = (every, text) => {
    const x = across(every);
    const half = text.length * 3.4;
    const middle = Math.min(x, SIZE.width - half);
    drawn.append(svg("path", { d: `M${x.toFixed(1)} ${SIZE.top}V${floor + 4}`, class: "grid" }));
    if (taken.some((other) => Math.abs(other.middle - middle) < other.half + half + 5)) return;
    taken.push({ middle, half });
    drawn.append(label(middle, floor + 17, text, "middle"));
  };
  const most = Math.max(count, 10);
  for (let nines = 1, every = 10; every <= most && nines < 20; nines++, every *= 10) {
    mark(every, nines === 1 ? "90 %" : `99${nines > 2 ? `.${"9".repeat(nines - 2)}` : ""} %`);
  }
  mark(2, "50 %");
  const middles = all.map(([first, last]) => Math.min(Math.max(Number(first) + (Number(last) - Number(first)) / 2, Number(values.min ?? first)), Number(values.max ?? last)));
  let [before, path] = [0, ""];
  const steps = all.map((bucket, index) => {
    const from = across(count / (count - before));
    before += Number(bucket[2]);
    const to = before >= count ? SIZE.width - SIZE.right : across(count / (count - before));
    const y = at(index === all.length - 1 && values.max !== null ? values.max : middles[index]).toFixed(1);
    path += `${index ? "L" : "M"}${from.toFixed(1)} ${y}H${to.toFixed(1)}`;
    return { to, bucket };
  });
  const area = path && `${path}V${floor}H${left}Z`;
  drawn.append(svg("path", { d: area, class: "area" }), svg("path", { d: path, class: "curve" }), svg("path", { d: `M${left} ${floor}H${SIZE.width - SIZE.right}`, class: "axis" }));
  for (const [key, every] of [["p50", 2], ["p90", 10], ["p99", 100], ["p999", 1000], ["max", count]]) {
    if (values[key] === null || every > count) continue;
    drawn.append(svg("circle", { cx: across(every).toFixed(1), cy: at(values[key]).toFixed(1), r: 3, class: "quantile" }));
  }
  follow(drawn, (x) => {
    if (x < left || !steps.length) return undefined;
    const step = steps.find(({ to }) => to >= x) ?? steps.at(-1);
    const every = Math.min(2 ** (level(1) + ((x - left) / (across.to - left)) * (level(across.high) - level(1))), count);
    const [first, last] = step.bucket.map((value) => shown(integer(value, unit)));
    return { x, text: `${first === last ? first : `${first} to ${last}`}\n1 call in ${ofCalls(values, real(Math.max(every, 1), "count"))} costs as much or more` };
  });
  return drawn;
}
