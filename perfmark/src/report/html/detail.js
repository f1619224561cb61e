// One mark: the distribution of its calls, every value with all digits, its callers and its callees.

let openMark = null;

const HOW = { user: "read in user space", syscall: "read by read(2)", ticks: "read from the tick counter", emulated: "counted by an emulator", none: "not available" };

/** A mean in groups of three digits, with three decimals or, below 1, three significant digits. */
function meanInFull(value) {
  if (!Number.isSafeInteger(Math.round(value))) return shown(real(value, "count"));
  const digits = sizeOf(value) < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 3 };
  return value.toLocaleString("en", digits).replace(/^-0$/, "0");
}

/** Rows of a name, a rounded number and the exact number. */
function valueTable(caption, rows) {
  const table = make("table", { class: "values" }, make("caption", {}, caption));
  const body = table.appendChild(make("tbody"));
  for (const [name, quantity, digits, why] of rows) {
    body.append(make("tr", { title: why }, make("th", { scope: "row" }, name), make("td", { class: "short" }, quantity), make("td", { class: "digits" }, digits)));
  }
  return table;
}

function eventSection(mark, event) {
  const [values, unit] = [mark.values[event], unitOf(event)];
  const section = make("section", { class: "of-event" }, make("h3", {}, event, make("small", {}, HOW[events.get(event)?.read] ?? "")));
  const quantity = (value) => integer(value, unit);
  const integerRow = (name, value, why) =>
    value === null ? [] : [[name, shown(quantity(value)), inFull(value, unit), why]];
  const WHY = {
    unwound: "calls that a panic ended, or that were dropped",
    "in flight": "calls in flight on the thread that made the report, until now",
  };
  const sumRow = (name, of, key, why) =>
    of[key] === null ? [] : [[name, shown(ofSum(of, key, quantity)), inFull(of[key], unit), why]];
  const unfinished = unfinishedOf(mark, event).flatMap(({ what, values: of }) => [
    ...sumRow(what, of, "total", WHY[what]),
    ...sumRow(`${what}, self`, of, "self", `${WHY[what]}, without the marked calls inside`),
  ]);
  if (!(values.measured > 0)) {
    section.append(make("p", { class: "quiet" }, unfinished.length ? "No measured call returned: there is no distribution." : "No call was measured."));
    if (unfinished.length) section.append(make("div", { class: "tables" }, valueTable("All calls", unfinished)));
    return section;
  }
  if (bucketsOf(values).length) {
    section.append(make("div", { class: "plots" },
      make("figure", {}, histogram(values, unit), make("figcaption", {}, "Calls by cost")),
      make("figure", {}, percentiles(values, unit), make("figcaption", {}, "Cost by percentile"))));
  }
  const one = (name, key, why) => {
    const value = values[key];
    if (value === null) return [];
    const digits = key === "mean" ? `${meanInFull(value)}${unit === "ns" ? " ns" : ""}` : inFull(value, unit);
    return [[name, shown(ofCall(values, key, unit)), digits, why]];
  };
  const count = (name, value, why) => [[name, shown(integer(value, "count")), exact(value), why]];
  const sum = (name, key, why) => sumRow(name, values, key, why);
  const share = (name, key) => {
    const value = () => shown(ofSum(values, key, shareOf(event)));
    return values[key] === null ? [] : [[name, value(), "", "of everything measured in marks"]];
  };
  const near = "within 1/64 of the value";
  const IMPUTED = "calls that were not measured, for which total and self include the mean of earlier calls";
  section.append(make("div", { class: "tables" },
    valueTable("A call", [
      ...one("min", "min"), ...one("p50", "p50", near), ...one("p90", "p90", near), ...one("p99", "p99", near), ...one("p99.9", "p999", near),
      ...one("max", "max"), ...one("mean", "mean", "the sum over the measured calls"),
    ]),
    valueTable("All calls", [
      ...sum("total", "total", "calls that are not inside another call of the mark: recursion counts once"),
      ...share("total's share", "total"),
      ...sum("self", "self", "without the marked calls inside"),
      ...share("self's share", "self"),
      ...(values.sum === values.total ? [] : integerRow("sum", values.sum, "over all calls in the distribution, including recursive ones")),
      ...unfinished,
      ...count("measured", values.measured, "calls that were measured"),
      ...(values.weight === values.measured ? [] : count("weight", values.weight, "calls that the measured ones represent")),
      ...(values.scaled > 0 ? count("scaled", values.scaled, "of these, counted in part and scaled") : []),
      ...(values.unmeasured > 0 ? count("unmeasured", values.unmeasured, "calls that should have been measured and were not") : []),
      ...(values.imputed > 0 ? count("imputed", values.imputed, IMPUTED) : []),
      ...(values.missing_outermost > 0 ? count("missing", values.missing_outermost, "outermost calls of a recursive function that are not in the total") : []),
      ...integerRow("probe overhead", values.overhead.in_call, "subtracted from each call"),
      ...integerRow("noise", values.overhead.noise, "the variation of the probe overhead: a value no larger is not significant"),
    ])));
  return section;
}

/** Calls between this mark and others, the most expensive first. */
function neighbours(mark, event) {
  const [callers, callees] = [new Map(), new Map()];
  const add = (map, key, node) => {
    const values = valuesOfNode(node, event);
    const known = map.get(key) ?? { calls: 0n, sum: 0n, weight: 0n };
    // All nodes of a key have the same mark, and so the same flags.
    const flags = flagsOf(marks[node.mark], event, known.weight + BigInt(values?.measured ?? 0));
    map.set(key, { ...flags, calls: known.calls + BigInt(node.calls), sum: known.sum + BigInt(values?.sum ?? 0) });
  };
  for (const node of snapshot.call_graph) {
    const above = node.parent === null ? null : snapshot.call_graph[node.parent];
    if (node.mark === mark.index) add(callers, above ? above.mark : null, node);
    if (above?.mark === mark.index) add(callees, node.mark, node);
  }
  return [["Called by", callers], ["Calls", callees]].filter(([, map]) => map.size > 0);
}

function neighbourTable(title, map, event) {
  const MOST = 12;
  const unit = unitOf(event);
  const sorted = [...map].sort(([, one], [, other]) => (one.sum < other.sum ? 1 : one.sum > other.sum ? -1 : 0));
  const table = make("table", { class: "neighbours" }, make("thead", {}, make("tr", {},
    make("th", { scope: "col" }, title), make("th", { scope: "col" }, "calls"), make("th", { scope: "col" }, event ?? ""))));
  const body = table.appendChild(make("tbody"));
  for (const [index, values] of sorted.slice(0, MOST)) {
    const { calls, sum } = values;
    const other = index === null ? undefined : marks[index];
    const name = other ? markButton(other, { onclick: () => showMark(other) }) : make("span", { class: "quiet" }, "no mark");
    body.append(make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { title: exact(calls) }, shown(integer(calls, "count"))), make("td", { title: inFull(sum, unit) }, shown(ofSum(values, "sum", (value) => integer(value, unit))))));
  }
  if (sorted.length > MOST) body.append(make("tr", {}, make("td", { class: "quiet", colspan: 3 }, `and ${exact(sorted.length - MOST)} more`)));
  return table;
}

/** Buttons that scroll to the sections of a mark. */
function sectionButtons(sections) {
  const show = (section) => {
    section.style.scrollMarginTop = `${section.parentElement.firstElementChild.offsetHeight}px`;
    goTo(section);
  };
  const button = ([name, section]) => make("button", { type: "button", onclick: () => show(section) }, name);
  return sections.length > 1 ? [make("nav", { "aria-label": "Sections" }, ...sections.map(button))] : [];
}

/** Opens a mark beside the table. */
function showMark(mark, { movesFocus = true } = {}) {
  const panel = byId("detail");
  const scrolled = openMark === mark ? panel.scrollTop : 0;
  openMark = mark;
  const facts = [
    ["calls", mark.calls], ["still running", mark.in_flight], ["ended by a panic", mark.unwound], ["cancelled", mark.cancelled],
    ["polls", mark.polls], ["interrupted", mark.interrupted], ["skipped", mark.skipped],
  ].filter(([name, value]) => name === "calls" || value > 0);
  const event = eventOfRow(mark);
  const [values, unit] = [valuesOfRow(mark, event), unitOf(event)];
  const oneCall = (key) => [key, ofCall(values, key, unit)];
  const ofRow = values
    ? [[`self (${event})`, ofSum(values, "self", shareOf(event))], ...["mean", "p50", "p99"].map(oneCall)]
    : [];
  const all = eventsOf(mark).sort((one, other) => (other === event) - (one === event));
  const around = snapshot.call_graph.length && event !== undefined ? neighbours(mark, event) : [];
  const ofEvents = all.map((name) => [name, eventSection(mark, name)]);
  const sections = [
    ...sourceSection(mark).map((section) => ["samples", section]),
    ...ofEvents.slice(0, 1),
    ...(around.length ? [["callers and callees", make("section", { class: "around" }, ...around.map(([name, map]) => neighbourTable(name, map, event)))]] : []),
    ...ofEvents.slice(1),
  ];
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", title: "Close (Esc)", onclick: hideMark }, "✕");
  const title = make("h2", { id: "detail-title", tabindex: -1 }, mark.label || "(no name)");
  panel.replaceChildren(
    make("header", {}, make("div", {}, title, make("p", { class: "location" }, make("code", {}, mark.path), make("span", {}, `${mark.file}:${mark.line}`))), close),
    make("dl", { class: "facts" },
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, exact(value)))),
      ...ofRow.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, shown(value)))),
      ...(mark.offCpu === null ? [] : [make("div", {}, make("dt", {}, "off-CPU"), make("dd", {}, `${mark.offCpu} %`))]),
      ...(mark.ipc === null ? [] : [make("div", {}, make("dt", {}, "IPC"), make("dd", {}, mark.ipc))])),
    ...(mark.coverage ? [make("p", { class: "coverage" }, ...sentence(mark.coverage))] : []),
    ...(mark.isCalled ? [] : [make("p", { class: "quiet" }, mark.on ? "Never called." : "Off: the filter turns it off.")]),
    ...(mark.isCalled ? sectionButtons(sections) : []),
    ...sections.map(([, section]) => section),
  );
  panel.hidden = false;
  panel.scrollTop = scrolled;
  document.body.classList.add("has-detail");
  for (const line of view.drawn.values()) line.classList.toggle("open", marks[line.dataset.mark] === mark);
  if (movesFocus) title.focus({ preventScroll: true });
}

function hideMark() {
  if (!openMark) return;
  const mark = openMark;
  openMark = null;
  byId("detail").hidden = true;
  document.body.classList.remove("has-detail");
  for (const line of view.drawn.values()) line.classList.remove("open");
  document.querySelector(`#rows tr[data-mark="${mark.index}"] button`)?.focus({ preventScroll: true });
}
