// Samples: shares with their errors, stacks as functions, and the lines of marked functions. Numbers of samples are of type Number,
// because nobody takes 2^53 of them.

/** Lines with fewer samples are not hot. */
const FEWEST = 5;

const sampled = snapshot.samples.map((samples, index) => {
  const code = [];
  const taken = samples.paths.reduce((sum, path) => sum + Number(path.samples), Number(samples.unattributed));
  // By the rule of hot_lines.rs.
  const whole = samples.removed > 0 ? "the samples shown" : "all samples";
  return { ...samples, ...words.samples[index], index, taken, whole, code };
});

/** A decimal number as Rust writes it: ties become even. */
function fixed(value, decimals) {
  const isTie = (value * (decimals ? 4 : 2)) % 2 === 1;
  if (!isTie) return value.toFixed(decimals);
  const down = Math.floor(value * 10 ** decimals);
  return ((down + (down % 2)) / 10 ** decimals).toFixed(decimals);
}

/** A share of samples with its standard error, by the rules of text.rs. */
function shareOfSamples(part, some, isBiased) {
  const all = Math.max(some, 1);
  const near = (part + 1) / (all + 2);
  const error = Math.sqrt(Math.max(0, (near * (1 - near)) / (all + 2))) * 100;
  const decimals = error < 0.95 ? 1 : 0;
  return `${isBiased ? ESTIMATE : ""}${fixed((part / all) * 100, decimals)} % ± ${fixed(error, decimals)}`;
}

const countOfSamples = (count) => `${exact(count)} sample${count === 1 ? "" : "s"}`;

/** The functions at a location, the innermost first. If nobody has named it, the place is its address. */
function codeAt(samples, at) {
  samples.code[at] ??= (() => {
    const { module, address, frames } = samples.locations[at];
    const named = frames.filter((frame) => samples.frames[frame]);
    if (named.length === 0) {
      const name = samples.modules[module]?.path.split("/").at(-1) || "";
      return [{ key: `+${module}`, name: name || "code in no file", place: `${name && `${name}+`}0x${BigInt(address).toString(16)}` }];
    }
    return named.map((frame) => {
      const { file, line } = samples.frames[frame];
      const name = samples.functions[frame] || "(no name)";
      return { key: `=${name}`, name, isNamed: true, file, line, place: file === null ? "" : `${samples.files[frame]}:${line ?? "?"}` };
    });
  })();
  return samples.code[at];
}

/** The functions of a stack, the innermost first. */
const framesOf = (samples, stack) =>
  stack.locations.flatMap((at, depth) => codeAt(samples, at).map((code) => ({ code, depth })));

/** One callee for all that perfmark does at entry and exit of a mark. */
const ofProbe = { code: { key: words.probe, name: words.probe, isNamed: true, file: null, place: "" }, depth: -1 };

/** Functions below a mark or a line, by what they are called from. */
const newCallee = (fields) => ({ samples: 0, inCallees: 0, own: 0, places: new Map(), children: new Map(), ...fields });

/** Adds the functions from the index `from` inwards. Successive addresses without names are one callee, at the innermost of them. */
function addCallees(node, frames, from, count, inCallees, added = () => {}) {
  let at = node;
  for (let index = from; index >= 0; index--) {
    const { code, depth } = frames[index];
    const isInlined = index + 1 < frames.length && frames[index + 1].depth === depth;
    const key = `${isInlined}${code.key}`;
    if (at.key !== key || code.isNamed) {
      if (!at.children.has(key)) {
        const child = newCallee({ key, code, isInlined });
        at.children.set(key, child);
        added(child, at);
      }
      at = at.children.get(key);
      at.samples += count;
      at.inCallees += inCallees;
    }
    const isMerged = !code.isNamed && frames[index - 1]?.code.key === code.key;
    if (!isMerged) at.places.set(code.place, (at.places.get(code.place) ?? 0) + count);
  }
  at.own += count;
}

const bySamples = (one, other) => other.samples - one.samples;

/** The most frequent places of a function, with their samples. */
const placesOf = ({ places }) => [...places].sort(([, one], [, other]) => other - one);

/** The function's name, or its address if it has no name, and a single address. */
const nameOfCallee = ({ code, places }) => (code.isNamed || places.size > 1 ? code.name : code.place);

/**
 * The samples directly in a mark: those in perfmark's probe; and the others, by lines of the marked function, or by function where the
 * stack does not reach it.
 */
function linesOf(samples, mark) {
  const found = { all: 0, inProbe: 0, lines: new Map(), unreached: new Map() };
  const at = (map, key, fields) => {
    if (!map.has(key)) map.set(key, newCallee(fields));
    return map.get(key);
  };
  samples.paths.forEach((path, index) => {
    if (path.marks.at(-1) !== mark) return;
    path.stacks.forEach((stack, ofStack) => {
      const count = Number(stack.samples);
      const frames = framesOf(samples, stack);
      const own = samples.own[index][ofStack];
      if (samples.probe[index][ofStack] > 0) {
        found.inProbe += count;
        return;
      }
      found.all += count;
      const line = own === null ? unreachedAt(frames) : at(found.lines, `${frames[own].code.line}\n${frames[own].code.file}`, { code: frames[own].code });
      const inCallees = own !== null && frames[own].depth > 0 ? count : 0;
      line.samples += count;
      line.inCallees += inCallees;
      addCallees(line, frames, (own ?? 0) - 1, count, inCallees);
    });
  });
  function unreachedAt(frames) {
    const { code } = frames.findLast(({ depth }) => depth === 0);
    return at(found.unreached, `${code.key}\n${code.place}`, { code });
  }
  return { all: found.all, inProbe: found.inProbe, lines: [...found.lines.values()].sort(bySamples), unreached: [...found.unreached.values()].sort(bySamples) };
}
