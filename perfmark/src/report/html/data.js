// The snapshot from the JSON report, and text that the table has, too.

const textOf = (id) => document.getElementById(id).textContent;

/** Characters that hide or move text, by the rule of text.rs. As in all formats for people, U+FFFD replaces them. */
const INVISIBLE = /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const sanitize = (text) => text.replace(INVISIBLE, "\ufffd");

/** JSON with names of which none hides or moves text. The report has replaced such characters in lines of source, but for tabs. */
function sanitized(of) {
  if (typeof of === "string") return sanitize(of);
  if (of === null || typeof of !== "object") return of;
  if (Array.isArray(of)) return of.map(sanitized);
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [sanitize(key), key === "lines" ? value : sanitized(value)]));
}

/** A report in ASCII without escapes, except that of `<`, has no such characters. Most reports are, and need no copy. */
const parseJson = (text) => (/[^\0-\x7e]|\\(?!u003c)/.test(text) ? sanitized(JSON.parse(text)) : JSON.parse(text));

const runs = parseJson(textOf("runs"));
/** The run that the address names; 0 for all of them. */
const runOfAddress = () => Math.min(Number(/^#run=(\d+)$/.exec(location.hash)?.[1] ?? 0), runs.length);
/** Which of the runs is shown. */
const chosenRun = runOfAddress();
const words = parseJson(textOf(`words-${chosenRun}`));
const [ESTIMATE, NEAR, IMPOSSIBLE] = words.symbols;

/** JSON.parse would round integers beyond 2^53: they are quoted first, and then become BigInt. */
const LARGE = /"(?:[^"\\]|\\.)*"|-?\d+[.eE][-+.eE\d]*|-?\d{16,}/g;
const quoteLarge = (text) =>
  text.replace(LARGE, (token) =>
    /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token);

/** Converts quoted integers to BigInt, in values that contain numbers only. */
function numbers(of) {
  for (const [key, value] of Object.entries(of)) {
    if (typeof value === "string") of[key] = BigInt(value);
    else if (value !== null && typeof value === "object") numbers(value);
  }
  return of;
}

const read = (text) => parseJson(words.hasLarge ? quoteLarge(text) : text);

/** The histograms, most of a large report, stay text until they are needed. No name can look like their key, because quotes in names are escaped. */
const histograms = [];
const KEY = '"buckets":[';

function withoutHistograms(text) {
  const pieces = [];
  let from = 0;
  for (let at; (at = text.indexOf(`${KEY}[`, from)) >= 0; ) {
    const begin = at + KEY.length - 1;
    const end = text.indexOf("]]", begin) + 2;
    pieces.push(text.slice(from, begin), histograms.length);
    histograms.push(text.slice(begin, end));
    from = end;
  }
  return pieces.join("") + text.slice(from);
}

/** Lowest value, highest value and calls of each bucket. */
function bucketsOf(values) {
  if (!Array.isArray(values.buckets)) values.buckets = numbers(read(histograms[values.buckets]));
  return values.buckets;
}

function parse(text) {
  const snapshot = read(withoutHistograms(text));
  if (!words.hasLarge) return snapshot;
  for (const key of ["threads", "wall_ns"]) snapshot[key] = typeof snapshot[key] === "string" ? BigInt(snapshot[key]) : snapshot[key];
  for (const of of [...snapshot.marks, ...snapshot.call_graph]) {
    for (const key of Object.keys(of)) {
      if (typeof of[key] === "string" && !["name", "path", "file"].includes(key)) of[key] = BigInt(of[key]);
    }
    numbers(of.values);
  }
  return snapshot;
}

const snapshot = parse(textOf(`snapshot-${chosenRun}`));
for (const mark of snapshot.marks) {
  for (const values of Object.values(mark.values)) values.isEstimate = values.extrapolated || values.scaled > 0;
}
words.impossible.forEach((events, index) => {
  for (const event of events) snapshot.marks[index].values[event].isImpossible = true;
});

const events = new Map(snapshot.events.map((event) => [event.name, event]));
const unitOf = (event) => events.get(event)?.unit ?? "count";
const denominators = new Map(Object.entries(words.denominators).map(([event, sum]) => [event, BigInt(sum)]));
const impossibleSums = new Set(words.impossibleSums);
/** That part of everything measured of the event, flagged if no share of it can be true. */
const shareOf = (event) => (part) =>
  flagged(percent(part, denominators.get(event) ?? 0n), IMPOSSIBLE, impossibleSums.has(event));

/** All values of an event that a mark or a node has. */
const allValuesOf = (of, event) => (Object.hasOwn(of.values, event) ? of.values[event] : undefined);

/** A mark's values of an event, if any call was measured. */
function valuesOf(mark, event) {
  const values = allValuesOf(mark, event);
  return values?.measured > 0 ? values : undefined;
}

/** What flags a sum over calls of a mark that were measured so often: whether it is an estimate, and its noise. */
const flagsOf = (mark, event, measured) => ({ ...NOTHING, ...(mark && allValuesOf(mark, event)), weight: measured });

/**
 * A node's values of an event with the flags of its mark's, if any call was measured, or any poll of a call that has not ended: as in
 * graph.rs.
 */
function valuesOfNode(node, event) {
  const values = allValuesOf(node, event);
  const isKnown = values && (values.measured > 0 || Number(values.sum) !== 0 || Number(values.self) !== 0);
  return isKnown ? { ...flagsOf(marks[node.mark], event, values.measured), ...values } : undefined;
}

/** Total or self of calls that did not return. */
const unfinishedSum = (values, key) => BigInt(values[`unwound_${key}`]) + BigInt(values[`in_flight_${key}`]);

/** Whether the cost of any call is known, by the rule of share.rs. */
const hasCost = (values) =>
  values.measured > 0 || unfinishedSum(values, "total") !== 0n || unfinishedSum(values, "self") !== 0n;

/** A mark's values of an event, if the cost of any call is known. */
function costOf(mark, event) {
  const values = allValuesOf(mark, event);
  return values && hasCost(values) ? values : undefined;
}

const estimatedEvents = new Set(
  snapshot.marks.flatMap((mark) => Object.keys(mark.values).filter((event) => costOf(mark, event)?.isEstimate)));

/** Whether self is an estimate, by the rule of share.rs. */
const isSelfEstimate = (values, event) =>
  values.isEstimate || values.estimated > 0 || (estimatedEvents.has(event) && unfinishedSum(values, "self") !== 0n);

/** Calls that did not return, by the rule of unfinished.rs: the name of their row, and their values. */
function unfinishedOf(mark, event) {
  const values = allValuesOf(mark, event);
  if (!values) return [];
  const flags = { isEstimate: values.isEstimate, estimated: isSelfEstimate(values, event), isImpossible: values.isImpossible };
  const row = (what, total, self) => (total || self ? [{ what, values: { ...NOTHING, ...flags, total, self } }] : []);
  return [
    ...row("unwound", values.unwound_total, values.unwound_self),
    ...row("in flight", values.in_flight_total, values.in_flight_self),
  ];
}

/** The values of calls that are in no distribution. */
const NOTHING = {
  measured: 1, weight: 0, isEstimate: false, estimated: 0, overhead: { noise: 0 }, buckets: [],
  min: null, p50: null, p90: null, p99: null, p999: null, max: null, mean: null,
};

/** The events of a mark that get a row: one that is not available on this machine is listed in the legend. */
const eventsOf = (mark) =>
  Object.keys(mark.values).filter((event) => mark.values[event].measured > 0 || events.get(event)?.read !== "none");

const marks = snapshot.marks.map((mark, index) => ({
  ...mark,
  index,
  label: words.labels[index],
  coverage: words.coverage[index],
  ipc: words.ipc[index],
  offCpu: words.offCpu[index],
  sought: `${words.labels[index]}\n${mark.path}\n${mark.file}`.toLowerCase(),
  isCalled: mark.calls > 0 || mark.in_flight > 0,
  group: words.groups.length,
  rank: Infinity,
}));

// Which table of the text report has the mark's row, at which rank, and with which event. Marks never called have none.
words.groups.flatMap((rows, group) => rows.marks.map((index) => ({ index, group, rowEvent: rows.event })))
  .forEach(({ index, ...row }, rank) => Object.assign(marks[index], row, { rank }));

/** Events that can order the table: those that were measured. */
const measuredEvents = [...events.keys()].filter((event) => marks.some((mark) => costOf(mark, event)));

const unflaggable = [MISSING.number, ...words.symbols];
/** With that flag before it, if `isSo` and it is a value without a flag. */
function flagged(quantity, flag, isSo) {
  const isFree = !unflaggable.includes(quantity.number[0]);
  return isSo && isFree ? { ...quantity, number: flag + quantity.number } : quantity;
}
const isNoise = (values, value) => value !== null && values.overhead.noise > 0 && sizeOf(value) <= values.overhead.noise;

/** One call's cost, flagged if calls were scaled, or if it is no larger than the probe's noise. */
function ofCall(values, key, unit) {
  const value = values?.[key] ?? null;
  if (value === null) return MISSING;
  const quantity = key === "mean" ? real(value, unit) : integer(value, unit);
  return flagged(flagged(quantity, ESTIMATE, values.scaled > 0), NEAR, isNoise(values, value));
}

/** Total or self, as `show` writes it, flagged if it is an estimate, or no larger than the noise of that many calls. */
function ofSum(values, key, show) {
  const value = values?.[key] ?? null;
  if (value === null) return MISSING;
  const isEstimate = values.isEstimate || (key === "self" && values.estimated > 0);
  const noise = BigInt(values.overhead.noise) * BigInt(values.weight);
  const isNear = noise > 0n && sizeOf(BigInt(value)) <= noise;
  return flagged(flagged(show(value), NEAR, isNear && !isEstimate), values.isImpossible ? IMPOSSIBLE : ESTIMATE, isEstimate);
}

/** The values of a mark's only row. Total and self include calls that did not return. */
function valuesOfRow(mark, event) {
  const values = costOf(mark, event);
  const [unfinished] = unfinishedOf(mark, event);
  if (!values || !unfinished) return values;
  const returned = values.measured > 0 ? values : { ...unfinished.values, total: 0, self: 0 };
  const sum = (key) => (returned[key] === null ? null : BigInt(returned[key]) + unfinishedSum(values, key));
  return { ...returned, estimated: unfinished.values.estimated, total: sum("total"), self: sum("self") };
}

/** Creates an element with attributes and children. Text never becomes markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Whether a click ends the selection of text. A key on a button is a click without `detail`. */
const isSelecting = ({ detail }) => detail > 0 && String(getSelection()) !== "";

/** Scrolls to a part of the page and moves the focus there. The address, which names the run, stays. */
function goTo(part) {
  part.scrollIntoView();
  part.tabIndex = -1;
  part.focus({ preventScroll: true });
}

/** The parts of a sentence. What is between backticks is code. */
const sentence = (text) => text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? make("code", {}, part) : part));

const svg = (name, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

const byId = (id) => document.getElementById(id);
