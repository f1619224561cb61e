// Where the samples are: the lines of a mark with what they call, and functions outside of all marks.

const source = new Map(snapshot.sources.flatMap(({ file, line, lines }) => lines.map((text, at) => [`${file}:${line + at}`, text])));
const textOfLine = (file, line) => source.get(`${file}:${line}`);

const MOST_LINES = 40;
const MOST_CALLEES = 8;
const MOST_FUNCTIONS = 12;
const MOST_HOT = 3;
/** The lines before and after a sampled line. */
const AROUND = 3;

/** Chooses among the events that were sampled, if there are several. */
function samplingSelect(where) {
  if (sampled.length < 2) return [];
  const select = make("select", { "aria-label": "Sampled event", "data-where": where, onchange: () => chooseSampling(select.selectedIndex, where) });
  for (const { rate, index } of sampled) select.append(make("option", { selected: index === state.sampling }, rate));
  return [select];
}

function chooseSampling(index, where) {
  state.sampling = index;
  drawSamples();
  changeFlame();
  if (openMark) showMark(openMark, { movesFocus: false });
  document.querySelector(`select[data-where="${where}"]`)?.focus();
}

/** A share with a bar; empty without samples. */
function shareCell(part, all, samples, attributes = {}) {
  const cell = make("td", { class: "share", ...attributes }, part > 0 ? shareOfSamples(part, all, samples.isBiased) : "");
  cell.style.setProperty("--part", `${(part / Math.max(all, 1)) * 100}%`);
  if (part > 0) cell.title = `${exact(part)} of ${countOfSamples(all)}`;
  return cell;
}

const numberCell = (...children) => make("td", { class: "number" }, ...children);

/** The cells of the samples in a line or function itself, and in those that it calls. */
const shareCells = ({ samples: count, inCallees }, all, samples) => [
  shareCell(count - inCallees, all, samples),
  shareCell(inCallees, all, samples, { class: "share callees" }),
];

/** What a line calls, with what that calls: those with the most samples. */
function calleeRows(line, all, samples) {
  const rows = [];
  const add = (node, level) => {
    for (const child of [...node.children.values()].sort(bySamples)) {
      rows.push({ child, level });
      add(child, level + 1);
    }
  };
  add(line, 0);
  // A caller has at least as many samples, and is before its callees.
  const shown = new Set(rows.toSorted((one, other) => bySamples(one.child, other.child)).slice(0, MOST_CALLEES));
  const drawn = rows.filter((row) => shown.has(row)).map(({ child, level }) => {
    const [[hottest], ...others] = placesOf(child);
    const name = nameOfCallee(child);
    const place = hottest && hottest !== name ? `${hottest}${others.length ? ` and ${counted(others.length, "other place")}` : ""}` : "";
    const cell = make("td", { class: "code" }, make("code", {}, name),
      ...(child.isInlined ? [make("small", { class: "inlined" }, "inlined")] : []), ...(place ? [make("small", {}, place)] : []));
    cell.style.paddingLeft = `${14 + 16 * level}px`;
    return make("tr", { class: "callee" }, ...shareCells(child, all, samples), numberCell(), cell);
  });
  const more = rows.length - drawn.length;
  if (more > 0) drawn.push(make("tr", { class: "callee" }, make("td", { colspan: 3 }), make("td", { class: "code quiet" }, `and ${counted(more, "function")} with fewer samples`)));
  return drawn;
}

/** Text whose wrapped lines begin below its first character. */
function codeCell(text) {
  const cell = make("td", { class: "code" }, text.trimStart());
  const columns = [.../^\s*/.exec(text)[0]].reduce((sum, space) => sum + (space === "\t" ? 4 : 1), 0);
  cell.style.setProperty("--indent", `${columns}ch`);
  return cell;
}

/** A row of a line of source; one with callees shows them when it is opened. */
function lineRow(line, number, text, { all, samples, isHot, isOpen }) {
  if (!line) return [make("tr", { class: "line" }, make("td", { class: "share" }), make("td", { class: "share" }), numberCell(number), codeCell(text))];
  const code = text === undefined ? make("td", { class: "code place" }, line.code.place || line.code.name) : codeCell(text);
  const row = make("tr", { class: isHot ? "line sampled hot" : "line sampled" }, ...shareCells(line, all, samples));
  if (line.children.size === 0) {
    row.append(numberCell(number), code);
    return [row];
  }
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-label": `Line ${number}: the functions there` }, number);
  row.append(numberCell(button), code);
  row.classList.add("opens");
  let rows = [];
  const toggle = () => {
    const opens = rows.length === 0;
    rows.forEach((inner) => inner.remove());
    rows = opens ? calleeRows(line, all, samples) : [];
    row.after(...rows);
    button.setAttribute("aria-expanded", String(opens));
    return rows;
  };
  row.addEventListener("click", (event) => !isSelecting(event) && toggle());
  return [row, ...(isOpen ? toggle() : [])];
}

/** The sampled lines of a file in the order of their numbers, with the lines around them where their text is known. */
function fileTable(file, lines, about) {
  const known = new Map(lines.map((line) => [line.code.line, line]));
  const numbers = new Set(known.keys());
  for (const line of lines.filter(({ samples }) => samples >= FEWEST)) {
    for (let number = line.code.line - AROUND; number <= line.code.line + AROUND; number++) {
      if (textOfLine(file, number) !== undefined) numbers.add(number);
    }
  }
  const sorted = [...numbers].sort((one, other) => one - other);
  const texts = sorted.map((number) => textOfLine(file, number));
  const indents = texts.filter((text) => text?.trim()).map((text) => /^\s*/.exec(text)[0]);
  const indent = indents.reduce((least, other) => (other.length < least.length ? other : least), indents[0] ?? "").length;
  const body = make("tbody");
  sorted.forEach((number, index) => {
    if (index > 0 && texts[index] !== undefined && number > sorted[index - 1] + 1) {
      body.append(make("tr", { class: "gap" }, make("td", { colspan: 2 }), numberCell("⋯"), make("td")));
    }
    const line = known.get(number);
    body.append(...lineRow(line, number === null ? "?" : String(number), texts[index]?.slice(indent), { ...about, isHot: about.hot.has(line), isOpen: about.opened === line }));
  });
  return body;
}

/** Functions with their shares. */
function functionTable(rows, all, samples) {
  const table = make("table", { class: "functions" });
  const body = table.appendChild(make("tbody"));
  for (const { count, name, place, about } of rows) {
    body.append(make("tr", {}, shareCell(count, all, samples),
      make("td", {}, make("code", {}, name), ...[place, about].filter((text) => text && text !== name).map((text) => make("small", {}, text)))));
  }
  return table;
}

const nameLater = () =>
  make("span", {}, "The samples are addresses without lines. Write the report with ", make("code", {}, "PERFMARK_FORMAT=json"), ", and name the lines with ", make("code", { class: "command" }, "perfmark report --symbols FILE"), ".");

/** The annotated source of a mark. */
function sourceSection(mark) {
  const samples = sampled[state.sampling];
  if (!samples) return [];
  const { all, inProbe, lines, unreached } = linesOf(samples, mark.index);
  const section = make("section", { class: "of-source" }, make("h3", {}, "Samples",
    make("small", {}, `${all ? countOfSamples(all) : "no samples"} in the mark without marked callees${sampled.length < 2 ? `, of ${samples.rate}` : ""}`), ...samplingSelect("detail")));
  if (inProbe > 0) section.append(make("p", { class: "quiet" }, `Without ${countOfSamples(inProbe)} in ${words.probe}, ${shareOfSamples(inProbe, all + inProbe, samples.isBiased)}.`));
  if (all === 0) return [section];
  const shown = lines.slice(0, MOST_LINES);
  const hot = new Set(shown.filter(({ samples: count }) => count >= FEWEST).slice(0, MOST_HOT));
  const opened = [...hot].find(({ children }) => children.size > 0);
  const files = new Map();
  for (const line of shown) files.set(line.code.file, [...(files.get(line.code.file) ?? []), line]);
  if (files.size > 0) {
    const table = make("table", { class: "source" }, make("thead", {}, make("tr", {},
      make("th", { scope: "col", title: "Code of the function itself, including functions that are inlined there" }, "in the line"),
      make("th", { scope: "col", title: "Functions that the line calls" }, "in callees"), make("th", { scope: "col", class: "number" }, "line"), make("th", { scope: "col" }, ""))));
    for (const [file, ofFile] of files) {
      const hasText = ofFile.some(({ code }) => textOfLine(file, code.line) !== undefined);
      const place = ofFile[0].code.place.replace(/:\d+$/, "") || "unknown file";
      const body = fileTable(file, ofFile, { all, samples, hot, opened });
      if (hasText) body.prepend(make("tr", { class: "file" }, make("td", { colspan: 4 }, make("code", {}, place))));
      else body.prepend(make("tr", { class: "file" }, make("td", { colspan: 4 }, make("code", {}, place), make("small", {}, "its text is not here, or is newer than the program"))));
      table.append(body);
    }
    section.append(table, make("p", { class: "quiet" }, `Shares of these samples with their standard errors. Bold: the hottest lines with at least ${FEWEST} samples.`));
    const rest = lines.slice(MOST_LINES);
    if (rest.length) section.append(make("p", { class: "quiet" }, `and ${counted(rest.length, "line")} with fewer samples`));
  }
  if (unreached.length > 0) {
    const rows = unreached.slice(0, MOST_FUNCTIONS).map(({ samples: count, code: { name, place, isNamed } }) => ({ count, name: isNamed ? name : place, place }));
    const rest = unreached.length - rows.length;
    const why = samples.stack_bytes > 0 ? "These stacks do not reach the marked function" : "Outside of the marked function's own code";
    section.append(make("h4", {}, samples.frames.length ? why : nameLater()), functionTable(rows, all, samples),
      ...(rest > 0 ? [make("p", { class: "quiet" }, `and ${exact(rest)} more`)] : []));
  }
  return [section];
}

/** The samples of the program: how many are outside of marks, and in which functions. */
function drawSamples() {
  const samples = sampled[state.sampling];
  byId("samples").hidden = !samples;
  if (!samples) return;
  const outside = samples.paths.filter(({ marks: path }) => path.length === 0).reduce((sum, path) => sum + Number(path.samples), 0);
  const rows = samples.outside.map(({ samples: count, around: about, ...named }) => ({ count: Number(count), about, ...named }));
  const share = (count) => make("b", {}, shareOfSamples(count, samples.taken, samples.isBiased));
  const off = Number(samples.off);
  const ofOff = off > 0 ? [" In functions whose marks the filter turns off: ", share(off), "."] : [];
  const next = !rows.length ? "" : samples.outside.some(({ isOwn }) => isOwn) ? " Consider marking:" : " Hottest functions:";
  byId("samples").replaceChildren(
    make("div", { class: "title" }, make("h2", { id: "samples-title" }, "Samples"), make("small", {}, `${countOfSamples(samples.taken)} of ${samples.rate}`),
      make("span", { class: "space" }), ...samplingSelect("page")),
    ...(samples.taken > 0 ? [make("p", { class: "outside" }, "Outside marks: ", share(outside), ` of ${samples.whole}.`, ...ofOff, next)] : []),
    ...(rows.length ? [functionTable(rows, samples.taken, samples)] : []),
    ...(samples.taken > 0 && !samples.frames.length ? [make("p", { class: "quiet" }, nameLater())] : []));
}
