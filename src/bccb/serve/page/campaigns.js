// The list of campaigns.

import { byId, copyOf, figure, fillBar, write } from "./dom.js";
import { fixed } from "./format.js";
import { alertWords, showBadges } from "./status.js";
import { moneyOf } from "./units.js";

const rows = new Map(); // by the campaign's id

function makeRow(campaign) {
  const row = copyOf("campaign-row");
  row.dataset.campaign = campaign.id;
  row.querySelector("a").href = `#/campaigns/${encodeURIComponent(campaign.id)}`;
  return row;
}

function fillRow(row, campaign) {
  write(row.querySelector("a"), campaign.name);
  showBadges(row.querySelector(".status"), row.querySelector(".mode"), campaign);
  write(row.querySelector(".alert"), alertWords(campaign));
  row.querySelector(".plus").hidden = Number(campaign.reserved) === 0;
  for (const name of ["spent", "reserved", "budget"]) {
    figure(row.querySelector(`[data-figure="campaign-${name}"]`), moneyOf(campaign, campaign[name]), campaign[name]);
  }
  const reason = row.querySelector(".reason");
  write(reason, campaign.reason ?? "");
  reason.hidden = campaign.reason === null;
  row.querySelector(".count").hidden = campaign.status === "quarantined";
  const decisions = row.querySelector('[data-figure="campaign-decisions"]');
  figure(decisions, fixed(campaign.decisions), campaign.decisions);
  write(row.querySelector(".word"), campaign.decisions === 1 ? "decision" : "decisions");
  fillBar(row.querySelector(".bar"), campaign);
}

/** Show all campaigns. Rows that stay are not moved: a row that moves loses the focus. */
export function showCampaigns(campaigns) {
  const list = byId("campaigns");
  const ids = new Set(campaigns.map((campaign) => campaign.id));
  for (const [id, row] of rows) {
    if (!ids.has(id)) {
      row.remove();
      rows.delete(id);
    }
  }
  let place = list.firstElementChild;
  for (const campaign of campaigns) {
    const row = rows.get(campaign.id) ?? makeRow(campaign);
    rows.set(campaign.id, row);
    fillRow(row, campaign);
    if (row === place) place = place.nextElementSibling;
    else list.insertBefore(row, place);
  }
}

/** What the list knows of a campaign's name, before its report is there. */
export function nameOf(id) {
  return rows.get(id)?.querySelector("a").textContent ?? "";
}

/** The link to a campaign, if it is in the list. */
export function linkTo(id) {
  return rows.get(id)?.querySelector("a") ?? null;
}
