// What a campaign counts: conversions, or value in its currency.

import { fixed, money, percent } from "./format.js";

const withCurrency = (text, { currency }) => (currency === null ? text : `${text} ${currency}`);

/** Whether outcomes are amounts of money. */
export const isInMoney = (campaign) => campaign.outcome.kind === "amount";

/** Money as text, in the currency of a campaign. */
export const moneyOf = (campaign, text) => withCurrency(money(text), campaign);

/** What was caused, or a value, with so many decimals. */
export function countOf(campaign, value, decimals) {
  const text = fixed(value, decimals);
  return isInMoney(campaign) ? withCurrency(text, campaign) : text;
}

/** What a user brings on average: a rate, or a value. */
export function rateOf(campaign, value, decimals) {
  return isInMoney(campaign) ? countOf(campaign, value, decimals) : percent(value, decimals);
}

/** One unit of what a campaign counts, in words. */
export function unitOf(campaign) {
  if (!isInMoney(campaign)) return "conversion";
  return `${campaign.currency ?? "unit"} of value`;
}
