// The table: one row per mark, in the event that most marks measured or, if a mark did not, in another; or, with all events, a
// heading and a row for each. If there are very many rows, only the visible ones exist.

const state = { event: words.groups[0]?.event ?? measuredEvents[0], sort: "self", isDown: true, showsAllEvents: false, withUncalled: false, sought: [], sampling: 0 };

const ofValues = (key) => (mark, event) => valuesOf(mark, event)?.[key];
const call = (head, key, why) => ({ id: key, head, why, cell: (_, values, unit) => ofCall(values, key, unit), order: ofValues(key) });
const part = (head, key, why) => ({
  id: head,
  head,
  why,
  isBar: true,
  cell: (_, values, unit, event) => ofSum(values, key, shareOf(event)),
  order: (mark, event) => valuesOfRow(mark, event)?.[key],
});

const COLUMNS = [
  { id: "mark", head: "mark", why: "The marked function or region", order: (mark) => mark.label.toLowerCase(), isText: true },
  part("self", "self", "Share of everything measured in marks, without marked callees"),
  part("total", "total", "Share of everything measured in marks, with marked callees; recursion counts once"),
  {
    id: "sum",
    head: "total sum",
    why: "The sum over all calls; recursion counts once",
    cell: (_, values, unit) => ofSum(values, "total", (value) => integer(value, unit)),
    order: (mark, event) => valuesOfRow(mark, event)?.total,
  },
  { id: "calls", head: "calls", why: "Calls that ended, in any way", cell: (mark) => integer(mark.calls, "count"), order: (mark) => mark.calls, ofMark: true },
  {
    id: "off",
    head: "off-CPU",
    why: "The share of the mark's time in which its thread was not on a CPU",
    isBar: true,
    cell: (mark) => (mark.offCpu === null ? MISSING : { number: mark.offCpu, unit: "%" }),
    order: (mark) => (mark.offCpu === null ? null : Number(mark.offCpu.replace("<", ""))),
    ofMark: true,
  },
  {
    id: "ipc",
    head: "IPC",
    why: "Instructions per cycle, if both were counted over the same calls",
    cell: (mark) => (mark.ipc === null ? MISSING : { number: mark.ipc, unit: "" }),
    order: (mark) => (mark.ipc === null ? null : Number(mark.ipc.replace("<", ""))),
    ofMark: true,
  },
  call("mean", "mean", "The mean of the measured calls"),
  call("min", "min", "The smallest call"),
  call("p50", "p50", "Half the calls are at or below, within 1/64"),
  call("p90", "p90", "Nine in ten calls are at or below, within 1/64"),
  call("p99", "p99", "99 in a hundred calls are at or below, within 1/64"),
  call("p99.9", "p999", "999 in a thousand calls are at or below, within 1/64"),
  call("max", "max", "The largest call"),
  { id: "spread", head: "distribution", why: "The distribution of the calls, on a logarithmic axis that all rows of an event share" },
].filter(({ id }) => !["off", "ipc"].includes(id) || marks.some((mark) => mark[id === "off" ? "offCpu" : id] !== null));

/** The flags before a share's number. */
const SIGNS = new RegExp(`^[${ESTIMATE}${NEAR}${IMPOSSIBLE}]`);
/** The height of a row in pixels. On a narrow screen, names have lines of their own. */
const narrow = matchMedia("screen and (max-width: 640px)");
const rowHeight = () => (narrow.matches ? 54 : 30);
const SHOWN_AT_ONCE = 250;

const view = { rows: [], drawn: new Map(), isVirtual: false, ranges: new Map(), longest: 0, columns: COLUMNS.length };

/** The common range of all marks' distributions of an event. */
function rangeOfEvent(event) {
  if (!view.ranges.has(event)) view.ranges.set(event, rangeOf(marks.map((mark) => valuesOf(mark, event)).filter(Boolean)));
  return view.ranges.get(event);
}

/** Whether rows have the events of the text table, because the reader has not chosen another. */
const isAsInText = () => state.event === words.groups[0]?.event;
const eventOfRow = (mark) => (isAsInText() ? mark.rowEvent : null) ?? state.event;
/** The event of a mark's row if it is not that of the table. */
const otherEvent = (mark) => (eventOfRow(mark) === state.event ? [] : [eventOfRow(mark)]);

function sortedMarks() {
  const column = COLUMNS.find(({ id }) => id === state.sort);
  const isFound = (mark) => (mark.isCalled || state.withUncalled) && state.sought.every((word) => mark.sought.includes(word));
  const keyed = marks.filter(isFound).map((mark) => ({ mark, key: column.order(mark, eventOfRow(mark)) ?? null }));
  const way = state.isDown ? -1 : 1;
  const compare = (one, other) => {
    if (one.key === other.key) return 0;
    // What was not measured comes last, whatever the order.
    if (one.key === null || other.key === null) return one.key === null ? 1 : -1;
    return one.key < other.key ? -way : one.key > other.key ? way : 0;
  };
  // Values of several events are in no order.
  const isInGroups = isAsInText() && !column.ofMark && !column.isText;
  const byGroup = isInGroups ? (one, other) => one.group - other.group : () => 0;
  const byRank = isInGroups && column.id === "self" && state.isDown ? (one, other) => one.rank - other.rank : () => 0;
  const more = (one, other) => (one < other ? 1 : one > other ? -1 : 0);
  keyed.sort((one, other) => byRank(one.mark, other.mark) || byGroup(one.mark, other.mark) || compare(one, other) || more(one.mark.calls, other.mark.calls) || one.mark.index - other.mark.index);
  return keyed.map(({ mark }) => mark);
}

function rowsOf(mark) {
  const note = mark.coverage ? [{ kind: "note", mark }] : [];
  const all = eventsOf(mark);
  if (!state.showsAllEvents || all.length === 0) {
    return [{ kind: "mark", mark, event: eventOfRow(mark) }, ...note];
  }
  const unfinished = (event) => unfinishedOf(mark, event).map((row) => ({ kind: "unfinished", mark, event, ...row }));
  const ofEvents = all.flatMap((event) => [{ kind: "event", mark, event }, ...unfinished(event)]);
  return [{ kind: "heading", mark }, ...ofEvents, ...note];
}

/** A label whose last part stays visible if there is little room. */
function markButton(mark, attributes = {}) {
  const label = mark.label || "(no name)";
  const end = Math.max(0, label.lastIndexOf("::"));
  const title = `${mark.path}\n${mark.file}:${mark.line}`;
  return make("button", { type: "button", class: "name", title, ...attributes }, make("span", {}, label.slice(0, end)), make("span", {}, label.slice(end)));
}

/** The path of a mark whose label is only its name. */
function placeOf(mark) {
  const end = `::${mark.name}`;
  return mark.label === mark.name && mark.path.endsWith(end) ? [make("span", { class: "where" }, mark.path.slice(0, -end.length))] : [];
}

function drawRow(row, index) {
  const { kind, mark, event } = row;
  const line = make("tr", { class: kind, role: "row", "aria-rowindex": index + 2 });
  line.dataset.mark = mark.index;
  if (openMark === mark) line.classList.add("open");
  if (kind === "note") {
    line.append(make("td", { role: "cell", colspan: view.columns, title: mark.coverage }, make("span", {}, mark.coverage)));
    return line;
  }
  const isOfEvent = kind === "event" || kind === "unfinished";
  const label = kind === "event" ? event : `${event}, ${row.what}`;
  const ofOther = kind === "mark" ? otherEvent(mark) : [];
  const nameCell = () => make("div", { class: "label" }, markButton(mark), ...ofOther.map((name) => make("span", { class: "of-row" }, name)), ...placeOf(mark));
  line.append(make("th", { scope: "row", role: "rowheader" }, isOfEvent ? make("span", { class: "event" }, label) : nameCell()));
  const values = row.values ?? (kind === "mark" ? valuesOfRow : valuesOf)(mark, event);
  const unit = unitOf(event);
  for (const column of COLUMNS.slice(1)) {
    const cell = make("td", { role: "cell", class: `of-${column.id}` });
    line.append(cell);
    if (kind === "heading" ? !column.ofMark : isOfEvent && column.ofMark) continue;
    if (column.id === "spread") {
      if (values && bucketsOf(values).length) cell.append(sparkline(values, rangeOfEvent(event), unit));
      continue;
    }
    const { number, unit: name } = column.cell(mark, values, unit, event);
    cell.append(make("span", { class: "n" }, number), make("span", { class: "u" }, name));
    if (column.isBar && name) {
      const part = parseFloat(number.replace(SIGNS, "")) || 0;
      cell.style.setProperty("--part", `${Math.max(0, Math.min(100, part))}%`);
    }
    if (number === MISSING.number) cell.classList.add("missing");
  }
  return line;
}

/** Draws the visible rows, and keeps those that exist. */
function drawRows() {
  const body = byId("rows");
  const scroller = byId("scroller");
  let [first, end] = [0, view.rows.length];
  if (view.isVirtual) {
    first = Math.max(0, Math.floor(scroller.scrollTop / rowHeight()) - 12);
    end = Math.min(view.rows.length, first + Math.ceil(scroller.clientHeight / rowHeight()) + 26);
  }
  for (const [index, line] of view.drawn) {
    if (index >= first && index < end) continue;
    line.remove();
    view.drawn.delete(index);
  }
  const below = byId("below");
  let next = below;
  for (let index = end - 1; index >= first; index--) {
    let line = view.drawn.get(index);
    if (!line) {
      line = drawRow(view.rows[index], index);
      body.insertBefore(line, next);
      view.drawn.set(index, line);
    }
    next = line;
  }
  for (const [id, rows] of [["above", first], ["below", view.rows.length - end]]) {
    byId(id).hidden = rows === 0;
    byId(id).firstElementChild.style.height = `${rows * rowHeight()}px`;
  }
}

/** The least width of the names' column beside all other columns, in pixels. Paths follow short names. */
const LEAST = 180;

/** Shows all columns if the longest name is complete beside them. Otherwise, some give way to it. */
function fitColumns() {
  const [table, heads] = [byId("table"), [...byId("heads").children]];
  table.classList.remove("narrow");
  const isCut = heads[0].clientWidth < Math.max(view.longest, LEAST) || table.offsetWidth > byId("scroller").clientWidth;
  table.classList.toggle("narrow", isCut);
  // A cell across more columns than are shown would add columns, which take room from the names.
  view.columns = heads.filter((head) => head.offsetWidth > 0).length;
  for (const cell of byId("rows").querySelectorAll("td[colspan]")) cell.colSpan = view.columns;
}

/** The width of a column of these names, in pixels. */
function widthOf(labels) {
  const longest = labels.reduce((one, other) => (other.length > one.length ? other : one), "");
  const name = make("span", { class: "name" }, longest);
  const cell = document.body.appendChild(make("div", { class: "measured" }, name));
  const width = cell.offsetWidth;
  cell.remove();
  return width;
}

/** Draws the table again after the filter, the event or the order changed. */
function drawTable({ keepsPlace = false } = {}) {
  const found = sortedMarks();
  view.rows = found.flatMap(rowsOf);
  view.isVirtual = view.rows.length > SHOWN_AT_ONCE && !view.isPrinted;
  for (const line of view.drawn.values()) line.remove();
  view.drawn.clear();
  const table = byId("table");
  table.classList.toggle("virtual", view.isVirtual);
  const isMixed = state.showsAllEvents || found.some((mark) => otherEvent(mark).length > 0);
  table.dataset.unit = isMixed ? "mixed" : unitOf(state.event);
  byId("scroller").classList.toggle("virtual", view.isVirtual);
  table.setAttribute("aria-rowcount", view.rows.length + 1);
  if (!keepsPlace) byId("scroller").scrollTop = 0;
  const listed = marks.filter((mark) => mark.isCalled || state.withUncalled);
  const all = listed.length;
  byId("found").textContent = `${found.length === all ? "" : `${exact(found.length)} of `}${exact(all)} mark${all === 1 ? "" : "s"}`;
  byId("nothing").hidden = all === 0 || found.length > 0;
  byId("scroller").hidden = found.length === 0;
  for (const column of COLUMNS.filter(({ order }) => order)) {
    const isSorted = column.id === state.sort;
    const head = byId(`by-${column.id}`);
    if (isSorted) head.setAttribute("aria-sort", state.isDown ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  byId("order").value = state.sort;
  byId("reverse").textContent = state.isDown ? "↓" : "↑";
  const range = state.event === undefined ? undefined : rangeOfEvent(state.event);
  const [low, high] = range ? [range.low, range.high].map((value) => shown(integer(value, unitOf(state.event)))) : [];
  const ofAxis = range && !isMixed ? `, from ${low} to ${high}` : "";
  byId("by-spread").setAttribute("aria-label", `distribution of calls, logarithmic${ofAxis}`);
  byId("by-spread").firstElementChild.replaceChildren(...(range && !isMixed ? [make("span", {}, low), make("span", { class: "what" }, "distribution"), make("span", {}, high)] : ["distribution"]));
  view.longest = widthOf(listed.map((mark) => [mark.label, ...otherEvent(mark)].join(" ")));
  table.style.setProperty("--names", `${view.longest}px`);
  fitColumns();
  drawRows();
}

function sortBy(column) {
  state.isDown = state.sort === column.id ? !state.isDown : !column.isText;
  state.sort = column.id;
  drawTable();
}

/** Sets up the parts of the table that never change. */
function setUpTable() {
  const [columns, heads] = [byId("columns"), byId("heads")];
  for (const column of COLUMNS) {
    columns.append(make("col", { class: `c-${column.id}` }));
    const head = make("th", { scope: "col", role: "columnheader", id: `by-${column.id}`, class: `of-${column.id}`, title: column.why });
    head.append(column.order ? make("button", { type: "button", onclick: () => sortBy(column) }, make("span", {}, column.head)) : make("span", {}, column.head));
    heads.append(head);
    if (column.order) byId("order").append(make("option", { value: column.id }, column.head));
  }
  byId("order").addEventListener("change", ({ target }) => sortBy(COLUMNS.find(({ id }) => id === target.value)));
  byId("reverse").addEventListener("click", () => sortBy(COLUMNS.find(({ id }) => id === state.sort)));
  let isScheduled = false;
  byId("scroller").addEventListener("scroll", () => {
    if (isScheduled || !view.isVirtual) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      drawRows();
    });
  }, { passive: true });
  new ResizeObserver(() => {
    fitColumns();
    if (view.isVirtual) drawRows();
  }).observe(byId("scroller"));
  byId("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-mark]");
    if (line && !isSelecting(event)) showMark(marks[line.dataset.mark]);
  });
  byId("rows").addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest("tr[data-mark]");
    if (!way || !line) return;
    event.preventDefault();
    let index = line.ariaRowIndex - 2 + way;
    while (view.rows[index] && !["mark", "heading"].includes(view.rows[index].kind)) index += way;
    goToRow(index);
  });
}

/** Scrolls to a row and focuses it. */
function goToRow(index) {
  if (!view.rows[index]) return;
  const scroller = byId("scroller");
  if (view.isVirtual) {
    const [top, bottom] = [index * rowHeight(), (index + 2) * rowHeight() - scroller.clientHeight + 40];
    if (scroller.scrollTop > top) scroller.scrollTop = top;
    else if (scroller.scrollTop < bottom) scroller.scrollTop = bottom;
    drawRows();
  }
  view.drawn.get(index)?.querySelector("button")?.focus();
}
