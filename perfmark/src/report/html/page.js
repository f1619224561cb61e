// Sets up the page.

function showTip(text, { clientX, clientY, left, bottom }) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const [x, y] = [clientX ?? left, clientY ?? bottom];
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** Light, dark, or the system's choice. */
function setUpTheme() {
  const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
  const button = byId("theme");
  const set = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = THEMES[theme];
    button.title = `Colours: ${theme === "auto" ? "chosen by the system" : theme}`;
  };
  // If a page from a file has no storage, the choice lasts as long as the page.
  let theme = "auto";
  try {
    theme = localStorage.getItem("perfmark-theme") ?? "auto";
  } catch {}
  if (!Object.hasOwn(THEMES, theme)) theme = "auto";
  set(theme);
  button.addEventListener("click", () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const order = isDark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    theme = order[(order.indexOf(theme) + 1) % 3];
    set(theme);
    try {
      localStorage.setItem("perfmark-theme", theme);
    } catch {}
  });
}

function setUpHead() {
  const { perfmark: version, program, pid, wall_ns: ran, cpu_ns: cpu, threads, threads_at_once: atOnce } = snapshot;
  byId("brand").textContent = `perfmark ${version}`.trim();
  document.title = `${program || "program"} · perfmark`;
  byId("program").textContent = program || "(no name)";
  const time = [`ran ${shown(integer(ran, "ns"))}`, ...(cpu === null ? [] : [`${shown(integer(cpu, "ns"))} CPU`])];
  const most = atOnce !== null && atOnce < threads ? [`${shown(integer(atOnce, "count"))} at once`] : [];
  byId("run").textContent = [`pid ${pid || "unknown"}`, time.join(", "), [counted(threads, "thread"), ...most].join(", ")].join(" · ");
  byId("warnings").hidden = words.warnings.length === 0;
  byId("warnings").append(...words.warnings.map((line) => make("li", {}, ...sentence(line))));
  const missing = snapshot.events.filter(({ read }) => read === "none").length;
  const notes = words.legend.filter((line) => line.startsWith("note: ")).length;
  const hints = [
    ...(missing ? [`${counted(missing, "event")} not available`] : []),
    ...(notes ? [counted(notes, "note")] : []),
  ];
  byId("hints").hidden = hints.length === 0;
  byId("hints").textContent = hints.join(" · ");
  byId("hints").addEventListener("click", () => goTo(byId("legend")));
  const ofAxis = "distribution: number of calls at each cost, on a logarithmic scale that all rows of an event share";
  byId("legend").append(...[...words.legend, ...(measuredEvents.length ? [ofAxis] : [])].map((line) => {
    const [, head, rest] = /^([^:`]{1,60}):\s?(.*)$/s.exec(line) ?? [];
    const isWarning = head === "not available" || head === "note";
    return head === undefined ? make("li", {}, ...sentence(line)) : make("li", { class: isWarning ? "warning" : undefined }, make("b", {}, head), make("span", {}, ...sentence(rest)));
  }));
}

/** The page of another run is the same page, loaded again. */
function setUpRuns() {
  byId("run-choice").hidden = runs.length === 0;
  byId("chosen-run").append(...runs.map((name) => make("option", {}, name)));
  byId("chosen-run").selectedIndex = chosenRun;
  byId("chosen-run").addEventListener("change", ({ target }) => {
    location.hash = target.selectedIndex ? `run=${target.selectedIndex}` : "";
  });
  // The address also changes when a reader goes back to another run.
  addEventListener("hashchange", () => {
    if (runOfAddress() !== chosenRun) location.reload();
  });
}

function setUpEvents() {
  const field = byId("events");
  field.hidden = measuredEvents.length === 0;
  const choose = (event) => {
    state.event = event;
    drawTable();
    changeFlame();
    if (openMark) showMark(openMark, { movesFocus: false });
  };
  if (measuredEvents.length > 7) {
    const select = make("select", { "aria-label": "Event", onchange: (event) => choose(measuredEvents[event.target.selectedIndex]) });
    for (const event of measuredEvents) select.append(make("option", { selected: event === state.event }, event || "(no name)"));
    field.append(select);
    return;
  }
  measuredEvents.forEach((event, index) => {
    const input = make("input", { type: "radio", name: "event", id: `event-${index}`, checked: event === state.event, onchange: () => choose(event) });
    field.append(input, make("label", { for: `event-${index}` }, event || "(no name)"));
  });
}

function setUpTools() {
  byId("tools").hidden = marks.length === 0;
  byId("filter").addEventListener("input", (event) => {
    state.sought = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    drawTable();
    drawFlame();
  });
  byId("all-events").addEventListener("change", (event) => {
    state.showsAllEvents = event.target.checked;
    drawTable();
  });
  byId("all-events").parentElement.hidden = measuredEvents.length < 2;
  const uncalled = [["never called", true], ["off", false]].flatMap(([what, on]) => {
    const count = marks.filter((mark) => !mark.isCalled && mark.on === on).length;
    return count > 0 ? [`${what} (${exact(count)})`] : [];
  });
  byId("uncalled").parentElement.hidden = uncalled.length === 0;
  byId("uncalled-counts").textContent = uncalled.join(", ");
  byId("uncalled").addEventListener("change", (event) => {
    state.withUncalled = event.target.checked;
    drawTable();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideMark();
    else if (event.key === "/" && !event.target.closest("input, select, textarea") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      byId("filter").focus();
    }
  });
}

/** Prints every row, not only the visible ones. */
function setUpPrint() {
  addEventListener("beforeprint", () => {
    view.isPrinted = true;
    drawTable({ keepsPlace: true });
  });
  addEventListener("afterprint", () => {
    view.isPrinted = false;
    drawTable({ keepsPlace: true });
  });
}

setUpTheme();
setUpHead();
setUpRuns();
setUpEvents();
setUpTools();
setUpTable();
setUpFlame();
drawSamples();
setUpPrint();
drawTable();
changeFlame();
// Twice: the second frame comes after the first was painted.
requestAnimationFrame(() => requestAnimationFrame(() => {
  document.documentElement.dataset.ready = Math.ceil(performance.now());
}));
