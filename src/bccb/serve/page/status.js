// The true state of a campaign in a word, and what somebody should look at.

import { byId, copyOf, write } from "./dom.js";
import { moment } from "./format.js";

const NAMES = {
  money_gone: "money gone",
  no_outcomes: "no outcomes",
  off_plan: "off plan",
  out_of_balance: "out of balance",
};

/** The state of a campaign whose money is held until outcomes are known. */
export const MONEY_HELD = "money held";

/** The alert of a kind, if it stands. */
export const alertOf = (campaign, kind) => campaign.alerts.find((alert) => alert.kind === kind);

/** Running only while users can be treated. */
export function statusOf(campaign, now = Date.now()) {
  if (campaign.status !== "running") return campaign.status;
  const { ends_at: end } = campaign.horizon;
  if (end !== undefined && Date.parse(end) <= now) return "ended";
  if (alertOf(campaign, "money_gone") === undefined) return "running";
  const held = campaign.charge === "conversion" && Number(campaign.reserved) > 0;
  return held ? MONEY_HELD : "money gone";
}

/** Show the state as a badge, and that it is a shadow. */
export function showBadges(status, mode, campaign, now) {
  const text = statusOf(campaign, now);
  write(status, text);
  status.dataset.status = text;
  write(mode, campaign.mode === "shadow" ? "shadow" : "");
  mode.dataset.mode = campaign.mode;
}

/** The other alerts, in a few words. */
export function alertWords(campaign) {
  const others = campaign.alerts.filter((alert) => alert.kind !== "money_gone");
  return others.map((alert) => NAMES[alert.kind] ?? alert.kind).join(", ");
}

/** Show the alerts of one campaign, in the rows that are there already: each is said once. */
export function showAlerts(alerts) {
  const list = byId("alerts");
  list.hidden = alerts.length === 0;
  for (const row of [...list.children]) {
    if (!alerts.some((alert) => alert.kind === row.dataset.alert)) row.remove();
  }
  for (const alert of alerts) {
    let row = list.querySelector(`[data-alert="${alert.kind}"]`);
    if (row === null) {
      row = copyOf("alert-row");
      row.dataset.alert = alert.kind;
      list.append(row);
    }
    write(row.querySelector(".text"), alert.text);
    write(row.querySelector(".since"), `since ${moment(new Date(alert.since))}`);
  }
}
