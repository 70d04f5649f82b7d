// One campaign: what it caused, its money, its pace and its arms.

import { showArms } from "./arms.js";
import { showCaused } from "./caused.js";
import { Chart, roomAbove } from "./chart.js";
import { byId, fillBar, named, share, write } from "./dom.js";
import { showExplanation } from "./explain.js";
import { dateAndTime, duration, fixed, moment, money, pace, percent, significant } from "./format.js";
import { showOutcomes } from "./outcomes.js";
import { MONEY_HELD, alertOf, showAlerts, showBadges, statusOf } from "./status.js";
import { isInMoney, moneyOf, unitOf } from "./units.js";

const UNKNOWN = "not known yet";
let charts = null; // made when first shown: they need a width
let latest = null;

function makeCharts() {
  const spend = new Chart(
    "spend",
    [
      { label: "spent and reserved", sample: "spent", colour: "--spent", fill: "--spent-wash", width: 2.5 },
      { label: "plan", sample: "planned", colour: "--planned", dash: [6, 4] },
      { label: "budget", sample: "budget", colour: "--quiet", dash: [2, 3], width: 1.5 },
    ],
    { show: money, short: (value) => significant(value, 4) },
  );
  const price = new Chart(
    "price",
    [{ label: "for a unit of money", sample: "price", colour: "--price", step: true }],
    { show: (value) => significant(value, 3, true), short: (value) => significant(value, 3) },
  );
  return { spend, price };
}

function showTitle({ campaign, now }) {
  write(byId("campaign-name"), campaign.name);
  showBadges(byId("campaign-status"), byId("campaign-mode"), campaign, Date.parse(now));
  showAlerts(campaign.alerts);
  byId("shadow-note").hidden = campaign.mode !== "shadow";
  byId("quarantine-note").hidden = campaign.status !== "quarantined";
  write(byId("quarantine-reason"), campaign.reason ?? "");
  write(byId("chooser"), campaign.mode === "shadow" ? "your own system" : "the policy");
  const { users, ends_at: end } = campaign.horizon;
  const horizon = end === undefined ? `for ${fixed(users)} users` : `until ${dateAndTime(new Date(end))}`;
  const began = dateAndTime(new Date(campaign.created_at));
  const about = [campaign.policy.name, horizon, `since ${began}`];
  if (campaign.needs_history) about.push("decides once its history is uploaded");
  if (campaign.fits > 0) {
    const times = campaign.fits === 1 ? "once" : `${fixed(campaign.fits)} times`;
    about.push(`fitted again ${times}, last ${dateAndTime(new Date(campaign.fitted_at))}`);
  }
  write(byId("campaign-about"), about.join(" \u00b7 "));
}

function showMoney({ campaign, planned }) {
  for (const name of ["budget", "spent", "reserved", "remaining"]) {
    named(name, moneyOf(campaign, campaign[name]), campaign[name]);
  }
  named("planned", moneyOf(campaign, planned), planned);
  write(byId("charge-words"), chargeWords(campaign));
  byId("cap-words").hidden = campaign.cost_cap === null;
  if (campaign.cost_cap !== null) named("cost_cap", capWords(campaign), campaign.cost_cap);
  fillBar(byId("bar-spent").parentElement, campaign);
  share(byId("bar-planned"), "left", Number(planned) / Number(campaign.budget));
}

/** When costs are due, in a sentence, unless it is at once. */
function chargeWords({ charge, share: part }) {
  if (charge !== "conversion") return "";
  if (part === null) return "Costs are charged on conversion: without one, it returns.";
  return `Charged on conversion is ${percent(part, 1).replace(".0", "")} of the amount, at most the cost: the rest returns.`;
}

/** What the cost cap does, in a sentence. */
function capWords(campaign) {
  const [cap, unit] = [moneyOf(campaign, campaign.cost_cap), unitOf(campaign)];
  if (!campaign.cap_binds) return `Nothing is bought that is expected to cost more than ${cap} for one more ${unit}.`;
  return `Nothing left that is worth its price: one more ${unit} is expected to cost more than ${cap}, so ${moneyOf(campaign, campaign.remaining)} is left over.`;
}

function showActivity(report) {
  const { campaign } = report;
  for (const name of ["decisions", "treated"]) named(name, fixed(campaign[name]), campaign[name]);
  named("decisions-per-second", pace(report.decisions_per_second), report.decisions_per_second);
  const [when, wait] = forecast(report);
  named("money-ends-at", when, report.money_ends_at);
  write(byId("money-ends-in"), wait);
}

function forecast({ campaign, money_ends_at: end, now }) {
  if (campaign.status === "closed") return ["closed", "no more is spent"];
  if (statusOf(campaign) === MONEY_HELD) return ["held", "until outcomes are known"];
  if (campaign.cap_binds) return ["money is left", "nothing left that is worth its price"];
  if (Number(campaign.remaining) === 0) return ["gone", "all is spent or reserved"];
  if (alertOf(campaign, "money_gone") !== undefined) return ["gone", "hardly anything is left"];
  if (end === null) return [UNKNOWN, ""];
  const date = new Date(end);
  const wait = (date - new Date(now)) / 1_000;
  return [moment(date, wait < 600), `in ${duration(wait)}, if it goes on as of late`];
}

/** The series of a report, up to now. */
function points({ campaign, series, now, planned }) {
  const times = [...series.at];
  const spent = [...series.spent];
  const plan = [...series.planned];
  const price = [...series.price];
  const moment = Date.parse(now) / 1_000;
  if (campaign.status !== "closed" && times.length > 0 && moment > times.at(-1)) {
    times.push(moment);
    spent.push(Number(campaign.spent) + Number(campaign.reserved));
    plan.push(Number(planned));
    price.push(price.at(-1));
  }
  return { times, spent, plan, price };
}

function showCharts(report) {
  charts ??= makeCharts();
  const { times, spent, plan, price } = points(report);
  const budget = Number(report.campaign.budget);
  for (const id of ["spend", "price"]) byId(`${id}-panel`).classList.toggle("empty", times.length === 0);
  const close = byId("close-up").getAttribute("aria-pressed") === "true";
  const highest = Math.max(0, ...spent, ...plan);
  const words = planWords(report);
  write(byId("spend-note"), words);
  charts.spend.update(
    [times, spent, plan, times.map(() => budget)],
    close ? roomAbove(highest) : 1.06 * Math.max(highest, budget),
    `Lines of the money spent and planned over time, below the budget. ${words}`,
  );
  const last = price.at(-1);
  write(byId("price-unit"), isInMoney(report.campaign) ? "caused value" : "conversions");
  const priced = last === undefined ? "No price yet." : `The price is ${significant(last, 3)} now.`;
  charts.price.update([times, price], roomAbove(Math.max(0, ...price)), `A line of the price over time. ${priced}`);
}

/** How the spending stands against the plan, in a sentence. What is expected to return is not spent. */
function planWords({ campaign, planned, series, to_return: back }) {
  if (series.at.length === 0) return "Nothing was decided yet.";
  const ahead = Number(campaign.spent) + Number(campaign.reserved) - Number(back) - Number(planned);
  const budget = Number(campaign.budget);
  const part = percent(Math.abs(ahead) / budget, 1);
  if (Math.abs(ahead) < 0.0005 * budget) return "Spending is as planned.";
  const without = Number(back) > 0 ? `, without ${moneyOf(campaign, back)} that is expected to return` : "";
  return `Spending is ${moneyOf(campaign, Math.abs(ahead))} ${ahead > 0 ? "ahead of" : "behind"} the plan, ${part} of the budget${without}.`;
}

/** Show a report in place. */
export function showReport(report) {
  showTitle(report);
  const quarantined = report.campaign.status === "quarantined";
  latest = quarantined ? null : report;
  byId("board").hidden = quarantined;
  if (quarantined) return;
  showCaused(report);
  showMoney(report);
  showActivity(report);
  showOutcomes(report);
  showArms(report);
  showExplanation(report.campaign);
  showCharts(report);
}

/** Begin with another campaign: nothing of the last one may stay. */
export function expectReport(name) {
  latest = null;
  byId("board").hidden = true;
  write(byId("campaign-name"), name);
  for (const id of ["campaign-status", "campaign-mode", "campaign-about"]) write(byId(id), "");
  byId("shadow-note").hidden = true;
  byId("quarantine-note").hidden = true;
  showAlerts([]);
}

byId("close-up").addEventListener("click", ({ currentTarget }) => {
  const pressed = currentTarget.getAttribute("aria-pressed") === "true";
  currentTarget.setAttribute("aria-pressed", String(!pressed));
  if (latest !== null) showCharts(latest);
});
