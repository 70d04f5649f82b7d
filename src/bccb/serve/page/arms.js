// The conversion rate or the value per user of each arm, as figures and as a dot on its 95 % interval.

import { byId, copyOf, figure, share, write } from "./dom.js";
import { decimalsFor, fixed } from "./format.js";
import { conversionsText } from "./outcomes.js";
import { isInMoney, rateOf } from "./units.js";

/** The end of a common axis: a round number that holds every interval. */
function roundEnd(most) {
  if (!(most > 0)) return 0.01;
  const unit = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 3, 4, 5, 6, 8, 10].find((times) => times * unit >= most * 0.999999) ?? 10;
  return step * unit;
}

/** The ends of the axis that all arms have in common; 0 is on it, and a rate is at most 1. */
function axisOf(rates, inMoney) {
  const high = roundEnd(Math.max(0, ...rates.map((rate) => rate.high)));
  const below = -Math.min(0, ...rates.map((rate) => rate.low));
  if (!inMoney) return { low: 0, high: Math.min(1, high) };
  return { low: below > 0 ? -roundEnd(below) : 0, high };
}

function makeRow(number) {
  const row = copyOf("arm-row");
  for (const name of ["decisions", "outcomes", "conversions"]) {
    row.querySelector(`.${name}`).dataset.figure = `${name}-${number}`;
  }
  row.querySelector(".rate").dataset.figure = `rate-${number}`;
  row.querySelector(".low").dataset.figure = `rate-${number}-low`;
  row.querySelector(".high").dataset.figure = `rate-${number}-high`;
  return row;
}

function fillRow(row, arm, rate, axis, format) {
  write(row.querySelector("th"), arm.treatment ?? "left alone");
  row.classList.toggle("control", arm.treatment === null);
  figure(row.querySelector(".decisions"), fixed(arm.decisions), arm.decisions);
  figure(row.querySelector(".outcomes"), fixed(arm.outcomes), arm.outcomes);
  figure(row.querySelector(".conversions"), conversionsText(arm.conversions), arm.conversions);
  row.classList.toggle("unknown", rate === null);
  const { value, low, high } = rate ?? { value: null, low: null, high: null };
  const text = (part, none) => (rate === null ? none : format(part));
  figure(row.querySelector(".rate"), text(value, arm.outcomes > 0 ? "too early to tell" : "no outcome yet"), value);
  figure(row.querySelector(".low"), text(low, ""), low);
  figure(row.querySelector(".high"), text(high, ""), high);
  const width = axis.high - axis.low;
  share(row.querySelector(".dot"), "left", (value - axis.low) / width);
  share(row.querySelector(".whisker"), "left", (low - axis.low) / width);
  share(row.querySelector(".whisker"), "width", (high - low) / width);
}

/** Show all arms, in the rows that are there already. */
export function showArms({ campaign, arms }) {
  const body = byId("arms");
  const inMoney = isInMoney(campaign);
  const rates = arms.map((arm) => (inMoney ? arm.value_per_user : arm.rate));
  const known = rates.filter((rate) => rate !== null);
  const axis = axisOf(known, inMoney);
  const scale = inMoney ? 1 : 100; // percent
  // All arms with the same decimals, those that the narrowest interval needs.
  const widths = known.map((rate) => scale * (rate.high - rate.low));
  const decimals = decimalsFor(Math.min(...widths.filter((width) => width > 0)));
  const format = (value) => rateOf(campaign, value, decimals);
  const end = (value) => rateOf(campaign, value, value === 0 ? 0 : Math.max(0, -Math.floor(Math.log10(scale * Math.abs(value)))));
  while (body.rows.length > arms.length) body.deleteRow(-1);
  arms.forEach((arm, number) => {
    if (body.rows[number] === undefined) body.append(makeRow(number));
    fillRow(body.rows[number], arm, rates[number], axis, format);
  });
  byId("arms-early").hidden = !arms.some((arm) => arm.rate === null && arm.outcomes > 0);
  write(byId("arms-title"), inMoney ? "Value per user" : "Conversion rates");
  write(byId("arms-rate"), inMoney ? "Value per user" : "Rate");
  write(byId("arms-compared"), inMoney ? "values" : "rates");
  write(byId("arms-least"), end(axis.low));
  write(byId("arms-most"), end(axis.high));
}
