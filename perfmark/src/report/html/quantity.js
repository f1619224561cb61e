// Numbers for people, by the rules of quantity.rs: three significant digits and a unit. A value is shown in the first unit in
// which it is, rounded, below the unit's limit. Integers are of type Number or, beyond 2^53, BigInt; arithmetic is in BigInt,
// in millionths.
"use strict";

const MICRO = 1000000n;
const LARGEST = (1n << 64n) - 1n;
const LADDERS = {
  count: ["", "k", "M", "G", "T", "P", "E"].map((name, at) => ({
    name,
    size: 1000n ** BigInt(at),
    end: at === 0 ? 10000n : at === 6 ? null : 1000n ** BigInt(at + 1),
  })),
  ns: [
    ["ns", 1n, 1000n], ["µs", 1000n, 1000n], ["ms", 1000n, 1000n], ["s", 1000n, 60n],
    ["min", 60n, 60n], ["h", 60n, 24n], ["d", 24n, 365n], ["y", 365n, null],
  ].reduce((steps, [name, by, times]) => {
    const size = steps.length ? steps.at(-1).size * by : by;
    return [...steps, { name, size, end: times && size * times }];
  }, []),
};
const MISSING = { number: "–", unit: "" };

const sizeOf = (value) => (value < 0 ? -value : value);

const rounded = (value, size) => (value + size / 2n) / size;

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

/** Every digit, in groups of three. */
const exact = (value) => grouped(String(value));

function decimal(digits, decimals) {
  const one = 10n ** BigInt(decimals);
  const number = exact(digits / one);
  return decimals ? `${number}.${String(digits % one).padStart(decimals, "0")}` : number;
}

/** As many decimals as leave three digits, or none. */
function threeDigits(value, size, isInteger) {
  for (let decimals = isInteger ? 0 : 2; decimals > 0; decimals--) {
    const digits = rounded(value * 10n ** BigInt(decimals), size);
    if (digits < 1000n) return [digits, decimals];
  }
  return [rounded(value, size), 0];
}

function climb(micro, unit) {
  for (const step of LADDERS[unit]) {
    const isInteger = step.size === 1n && micro % MICRO === 0n;
    const [digits, decimals] = threeDigits(micro, step.size * MICRO, isInteger);
    if (step.end === null || digits * step.size < step.end * 10n ** BigInt(decimals)) {
      return { number: decimal(digits, decimals), unit: step.name };
    }
  }
}

const negated = (quantity) => ({ ...quantity, number: `-${quantity.number}` });

/** An integer number of occurrences or nanoseconds; a sum can be negative. */
const integer = (value, unit) => (value < 0 ? negated(integer(-BigInt(value), unit)) : climb(BigInt(value) * MICRO, unit));

/** A mean or a ratio. A negative one that rounds to nothing is 0. */
function real(value, unit) {
  if (Number.isNaN(value)) return MISSING;
  if (value > 0 && value < 0.005) return { number: "<0.01", unit: LADDERS[unit][0].name };
  if (value < 0) return value > -0.005 ? integer(0, unit) : negated(real(-value, unit));
  const micro = value > 1e30 ? LARGEST * MICRO : BigInt(Math.round(value * 1e6));
  return climb(micro < LARGEST * MICRO ? micro : LARGEST * MICRO, unit);
}

/** `part` of `all` in percent, to one decimal. A negative one that rounds to nothing is 0. */
function percent(part, all) {
  if (BigInt(all) === 0n) return MISSING;
  const tenths = rounded(BigInt(sizeOf(part)) * 1000n, BigInt(all));
  const quantity = { number: tenths === 0n && part > 0 ? "<0.1" : decimal(tenths, 1), unit: "%" };
  return tenths > 0n && part < 0 ? negated(quantity) : quantity;
}

const shown = ({ number, unit }) => (unit ? `${number} ${unit}` : number);

/** `1 call`, `4.21 M calls`. */
const counted = (count, noun) => `${shown(integer(count, "count"))} ${noun}${BigInt(count) === 1n ? "" : "s"}`;

/** An integer with all digits and its unit. */
const inFull = (value, unit) => (unit === "ns" ? `${exact(value)} ns` : exact(value));
