// Outcomes: how many are known, pending and too late, and how late conversions are reported.

import { AGE, Chart } from "./chart.js";
import { byId, named, write } from "./dom.js";
import { duration, fixed, percent } from "./format.js";
import { isInMoney, moneyOf } from "./units.js";

const ALL = 0.995; // the curve is shown up to where so many are reported
const ENOUGH = 10; // conversions from which a delay can be told
let chart = null; // made when first shown: it needs a width

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Conversions may be parts of one, where outcomes are. */
export const conversionsText = (value) => fixed(value, Number.isInteger(value) ? 0 : 1);

function showCounts({ campaign, arms }) {
  const known = sum(arms.map((arm) => arm.outcomes));
  named("pending", fixed(campaign.pending), campaign.pending);
  named("known", fixed(known), known);
  named("conversions", conversionsText(campaign.conversions), campaign.conversions);
  byId("value-part").hidden = !isInMoney(campaign);
  if (isInMoney(campaign)) named("value", moneyOf(campaign, campaign.value), campaign.value);
  named("too_late", fixed(campaign.too_late), campaign.too_late);
  byId("corrections-part").hidden = campaign.corrections === 0;
  named("corrections", fixed(campaign.corrections), campaign.corrections);
  const median = campaign.median_delay_seconds;
  const unknown = campaign.conversions < ENOUGH ? "too few to tell how late they come" : "too early to tell how late they come";
  const within = median === null ? unknown : `half of them within ${duration(median)}`;
  named("median-delay", within, median);
  const window = duration(campaign.outcome_window_seconds);
  write(
    byId("outcomes-note"),
    campaign.mode === "shadow"
      ? `The window is ${window}. A user without a report by then counts as no conversion if your system reported what it did, and is forgotten if not.`
      : `The window is ${window}. A user without a report by then counts as no conversion; until then in part, the longer the more.`,
  );
}

/** The curve of all treatments together, weighted by what each rests on. */
function together(arms) {
  const weights = arms.map((arm) => arm.reports);
  const whole = sum(weights);
  const even = arms.map(() => 1 / arms.length);
  const shares = whole > 0 ? weights.map((weight) => weight / whole) : even;
  return arms[0].shares.map((_, age) => sum(arms.map((arm, k) => shares[k] * arm.shares[age])));
}

function showCurve({ campaign, delays }) {
  const reports = sum(delays.arms.map((arm) => arm.reports));
  const enough = campaign.median_delay_seconds !== null;
  byId("delay-panel").classList.toggle("empty", !enough);
  const rests = `${fixed(reports)} ${reports === 1 ? "conversion" : "conversions"}`;
  write(
    byId("delay-note"),
    enough
      ? `The share of conversions that is reported by an age, learned from ${rests} so far.`
      : `Not enough reports yet: the delays of ${rests} were learned so far, each a while after its report. Until there are ten, the campaign goes by what is usual.`,
  );
  if (!enough) return;
  const [alone, ...treatments] = delays.arms;
  const lines = [together(treatments), alone.shares];
  const last = delays.seconds.findIndex((_, age) => lines.every((line) => line[age] >= ALL));
  const data = [delays.seconds, ...lines].map((values) => [0, ...values.slice(0, last + 1)]);
  chart ??= new Chart(
    "delay",
    [
      { label: "treated", sample: "spent", colour: "--spent", width: 2.5 },
      { label: "left alone", sample: "planned", colour: "--planned", dash: [6, 4] },
    ],
    { show: (share) => percent(share, 0), short: (share) => percent(share, 0), across: AGE },
  );
  const half = duration(campaign.median_delay_seconds);
  chart.update(data, 1.05, `Lines of the share of conversions that is reported by an age. Half of them come within ${half}.`);
}

/** Show the outcomes of a report in place. */
export function showOutcomes(report) {
  showCounts(report);
  showCurve(report);
}
