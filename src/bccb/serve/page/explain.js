// What the policy has learned: the effect by segment of each feature, and who is treated.

import { key } from "./connection.js";
import { byId, copyOf, figure, share, write } from "./dom.js";
import { decimalsFor, fixed, percent } from "./format.js";
import { isInMoney } from "./units.js";

const EVERY = 60_000; // milliseconds between two requests: an answer takes the service up to some seconds
const PATIENCE = 60_000; // for one answer
const WAITING = "Asking the service\u2026";
const POINTS = { scale: 100, words: "percentage points" };
let campaign = null; // its id
let asked = null; // when, or null before the first request

let unit = POINTS;

const points = (value, decimals) => `${value > 0 ? "+" : ""}${fixed(unit.scale * value, decimals)}`;

/** Ends of the axis that all features of a treatment have in common; 0 is always on it. */
function axisOf(features) {
  const effects = features.flatMap((feature) => feature.segments.map((segment) => segment.effect));
  const low = Math.min(0, ...effects.map((effect) => effect.low));
  const high = Math.max(0, ...effects.map((effect) => effect.high));
  return { low, width: high - low || 1 };
}

function fillSegment(row, { name, share: users, effect, treated }, axis, decimals) {
  write(row.querySelector("th"), name);
  figure(row.querySelector(".rate"), points(effect.value, decimals), effect.value);
  write(row.querySelector(".interval"), `${points(effect.low, decimals)} to ${points(effect.high, decimals)}`);
  write(row.querySelector(".users"), percent(users, 0));
  write(row.querySelector(".treated"), treated === null ? "not known" : percent(treated.value, 0));
  const place = (value) => (value - axis.low) / axis.width;
  share(row.querySelector(".zero"), "left", place(0));
  share(row.querySelector(".dot"), "left", place(effect.value));
  share(row.querySelector(".whisker"), "left", place(effect.low));
  share(row.querySelector(".whisker"), "width", (effect.high - effect.low) / axis.width);
  return row;
}

function featureOf(feature, axis, decimals) {
  const part = copyOf("learned-feature");
  write(part.querySelector("h3"), feature.feature);
  const difference = feature.is_clear
    ? `most for ${feature.most}, least for ${feature.least}`
    : "no clear difference";
  write(part.querySelector("p"), difference);
  const rows = feature.segments.map((segment) => fillSegment(copyOf("learned-row"), segment, axis, decimals));
  part.querySelector("tbody").append(...rows);
  part.querySelector("table").setAttribute("aria-label", `Effect by ${feature.feature}`);
  return part;
}

function treatmentOf({ treatment, average, features }, several) {
  const decimals = decimalsFor(unit.scale * (average.high - average.low), 2);
  const text = document.createElement("p");
  const ends = `${points(average.low, decimals)} to ${points(average.high, decimals)}`;
  const who = several ? ` of ${treatment}` : "";
  write(text, `Average effect${who}: ${points(average.value, decimals)} ${unit.words} (95 %: ${ends}).`);
  const axis = axisOf(features);
  return [text, ...features.map((feature) => featureOf(feature, axis, decimals))];
}

function show({ users, treatments }) {
  const several = treatments.length > 1;
  byId("learned").replaceChildren(...treatments.flatMap((each) => treatmentOf(each, several)));
  write(byId("learned-note"), `Averaged over ${fixed(users)} users, in ${unit.words}, as far as the model is right. One feature in twenty that has nothing to do with the effect looks clear by chance.`);
}

function tell(text) {
  byId("learned").replaceChildren();
  write(byId("learned-note"), text);
}

async function ask() {
  const wanted = campaign;
  const open = byId("learned-details").open && !document.hidden;
  if (wanted === null || !open || (asked !== null && Date.now() - asked < EVERY)) return;
  asked = Date.now();
  const headers = key.get() === null ? {} : { Authorization: `Bearer ${key.get()}` };
  const request = { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
  try {
    const response = await fetch(`/v1/campaigns/${encodeURIComponent(wanted)}/explanation`, request);
    const body = await response.json();
    if (wanted !== campaign) return;
    if (response.ok) show(body);
    else tell(`${body.detail}.`);
  } catch {
    if (wanted === campaign) tell("The service does not answer now. It is asked again in a minute.");
  }
}

/** Show what was learned in this campaign, while that panel is open. */
export function showExplanation(report) {
  const { id, currency } = report;
  unit = isInMoney(report) ? { scale: 1, words: `${currency ?? "units of money"} per user` } : POINTS;
  if (id !== campaign) {
    campaign = id;
    asked = null;
    tell(WAITING);
  }
  ask();
}

byId("learned-details").addEventListener("toggle", ask);
