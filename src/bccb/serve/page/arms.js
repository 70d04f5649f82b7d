// The conversion rate of each arm, as figures and as a dot on its 95 % interval.

import { byId, copyOf, figure, share, write } from "./dom.js";
import { decimalsFor, fixed, percent } from "./format.js";
import { conversionsText } from "./outcomes.js";

/** The end of a common axis: a round share that holds every interval. */
function roundShare(most) {
  if (!(most > 0)) return 0.01;
  const unit = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 3, 4, 5, 6, 8, 10].find((times) => times * unit >= most * 0.999999) ?? 10;
  return Math.min(1, step * unit);
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

function fillRow(row, arm, most, decimals) {
  write(row.querySelector("th"), arm.treatment ?? "left alone");
  row.classList.toggle("control", arm.treatment === null);
  figure(row.querySelector(".decisions"), fixed(arm.decisions), arm.decisions);
  figure(row.querySelector(".outcomes"), fixed(arm.outcomes), arm.outcomes);
  figure(row.querySelector(".conversions"), conversionsText(arm.conversions), arm.conversions);
  row.classList.toggle("unknown", arm.rate === null);
  const { value, low, high } = arm.rate ?? { value: null, low: null, high: null };
  const told = (part, none) => (arm.rate === null ? none : percent(part, decimals));
  figure(row.querySelector(".rate"), told(value, arm.outcomes > 0 ? "too early to tell" : "no outcome yet"), value);
  figure(row.querySelector(".low"), told(low, ""), low);
  figure(row.querySelector(".high"), told(high, ""), high);
  share(row.querySelector(".dot"), "left", value / most);
  share(row.querySelector(".whisker"), "left", low / most);
  share(row.querySelector(".whisker"), "width", (high - low) / most);
}

/** Show all arms, in the rows that are there already. */
export function showArms(arms) {
  const body = byId("arms");
  const most = roundShare(Math.max(0, ...arms.map((arm) => arm.rate?.high ?? 0)));
  // All arms with the same decimals, those that the narrowest interval needs.
  const widths = arms.flatMap(({ rate }) => (rate === null ? [] : [100 * (rate.high - rate.low)]));
  const decimals = decimalsFor(Math.min(...widths.filter((width) => width > 0)));
  while (body.rows.length > arms.length) body.deleteRow(-1);
  arms.forEach((arm, number) => {
    if (body.rows[number] === undefined) body.append(makeRow(number));
    fillRow(body.rows[number], arm, most, decimals);
  });
  byId("arms-early").hidden = !arms.some((arm) => arm.rate === null && arm.outcomes > 0);
  write(byId("arms-most"), percent(most, Math.max(0, -Math.floor(Math.log10(100 * most)))));
}
