// What the money caused: estimated by the model, measured by random decisions alone, now and over time.

import { Chart, roomAbove } from "./chart.js";
import { byId, named, write } from "./dom.js";
import { decimalsFor, fixed } from "./format.js";
import { countOf, isInMoney } from "./units.js";

const UNKNOWN = "not known yet";
const SHADOW = "not known in shadow";
const TOO_FEW = "too few users yet";
const NOTHING = { estimated: null, measured: null, measured_users: 0, return_on_spend: null, not_measured: null, measurable: true, too_few: null };
let chart = null; // made when first shown: it needs a width
let range = 1; // of the axis, by which the chart rounds

const rounded = (value) => fixed(value, decimalsFor(range / 10, 2));

/** A figure with its interval, or words in its place: where it is not known, or not to be shown. */
function show(name, interval, placeholder, format, hidden = false) {
  const known = interval !== null && !hidden;
  const { value, low, high } = interval ?? { value: null, low: null, high: null };
  const decimals = known ? decimalsFor((high - low) / 10, 2) : 0;
  const text = (part) => (known ? fixed(part, decimals) : "");
  named(name, known ? format(value, decimals) : placeholder, value);
  named(`${name}-low`, text(low), low);
  named(`${name}-high`, text(high), high);
  byId(`${name}-range`).hidden = !known;
}

function meaning(estimated, shadow, inMoney, conversions) {
  const what = inMoney ? "Value" : "Conversions";
  if (shadow) return "A shadow campaign treats nobody, so it has caused nothing.";
  if (estimated === null && inMoney && conversions === 0) return "Nobody has converted yet, so it is not known what a conversion brings.";
  if (estimated === null) return "The model of this policy does not know how sure it is, or the campaign began with an older version: read the measured figure.";
  if (estimated.low > 0) return `${what} that would not have been without the treatments, as far as the model is right.`;
  if (estimated.high < 0) return `The treatments seem to have cost ${what.toLowerCase()}.`;
  return "It could still be none: the interval holds 0.";
}

function difference({ measured, measured_users: users, not_measured: reason, too_few: few }) {
  if (reason !== null || few !== null) return reason ?? few;
  if (measured === null) return "Measuring takes decisions made at random, from the first user on: a policy with a reserve above 0.";
  return `Estimated trusts the model. Measured trusts only who was left alone at random, among the first ${fixed(users)} users, whose outcomes are all known: it is wide, and its 95 % hold however often you look.`;
}

function showFigures({ campaign }) {
  const shadow = campaign.mode === "shadow";
  const inMoney = isInMoney(campaign);
  const { estimated, measured, return_on_spend: returned, measurable, too_few: few } = campaign.caused ?? NOTHING;
  const format = (value, decimals) => countOf(campaign, value, decimals);
  show("estimated", estimated, shadow ? SHADOW : UNKNOWN, format);
  const unmeasured = shadow ? SHADOW : !measurable ? "no" : few !== null ? TOO_FEW : UNKNOWN;
  show("measured", measured, unmeasured, format, few !== null);
  show("return", returned, UNKNOWN, fixed);
  byId("estimated").classList.toggle("unknown", estimated === null);
  byId("return-line").hidden = !inMoney || shadow;
  write(byId("effect-title"), `${inMoney ? "Value" : "Conversions"} that the money caused`);
  write(byId("caused-note"), meaning(estimated, shadow, inMoney, campaign.conversions));
  write(byId("measured-note"), shadow ? "" : difference(campaign.caused ?? NOTHING));
}

function showSeries({ caused_series: series }) {
  const known = [...series.estimated, ...series.measured].some((figure) => figure !== null);
  byId("caused-panel").classList.toggle("empty", !known);
  const ends = (figures) => ["value", "low", "high"].map((part) => figures.map((figure) => figure?.[part] ?? null));
  const estimated = ends(series.estimated);
  const measured = ends(series.measured);
  const seen = (series.estimated.some((figure) => figure !== null) ? estimated : measured).flat().filter((value) => value !== null);
  const top = roomAbove(Math.max(0, ...seen));
  const least = Math.min(0, ...seen);
  const bottom = least < 0 ? -roomAbove(-least) : 0;
  range = top - bottom;
  const beyond = [...measured[1], ...measured[2]].some((value) => value !== null && (value > top || value < bottom));
  const words = !known
    ? (series.at.length === 0 ? "Nothing to show before the first fifty outcomes." : "Neither figure is known in this campaign.")
    : `Each point is what was known at that time; measured is about those users alone whose outcomes were known.${beyond ? " The measured interval reaches beyond this chart; the table has its ends." : ""}`;
  write(byId("caused-chart-note"), words);
  if (!known) return;
  chart ??= new Chart(
    "caused",
    [
      { label: "estimated", sample: "spent", colour: "--spent", width: 2.5 },
      { label: "from", sample: "spent", colour: "--spent", width: 1 },
      { label: "to", sample: "spent", colour: "--spent", width: 1 },
      { label: "measured", sample: "planned", colour: "--planned", dash: [6, 4] },
      { label: "from", sample: "planned", colour: "--planned", dash: [2, 3], width: 1 },
      { label: "to", sample: "planned", colour: "--planned", dash: [2, 3], width: 1 },
    ],
    { show: rounded, short: rounded },
  );
  chart.update([series.at, ...estimated, ...measured], top, `Lines of what was caused, estimated and measured, with their intervals. ${words}`, bottom);
}

/** Show what a report says was caused. */
export function showCaused(report) {
  showFigures(report);
  showSeries(report);
}
