// Small helpers that touch the page only where something changed.

export const byId = (id) => document.getElementById(id);

/** Set a text, if it is another one. Names come from outside: they are text and never markup. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show a figure, with its raw value for machines. */
export function figure(element, text, raw) {
  write(element, text);
  const value = raw === null || raw === undefined ? "" : String(raw);
  if (element.dataset.value !== value) element.dataset.value = value;
}

/** Show a figure of the campaign by its name. */
export function named(name, text, raw) {
  figure(document.querySelector(`[data-figure="${name}"]`), text, raw);
}

/** Set a length in percent of the parent, from a share of one. */
export function share(element, property, value) {
  const bounded = Math.min(1, Math.max(0, Number.isFinite(value) ? value : 0));
  element.style[property] = `${(100 * bounded).toFixed(3)}%`;
}

/** A copy of the only child of a template. */
export function copyOf(template) {
  return byId(template).content.firstElementChild.cloneNode(true);
}

/** The parts that a sum is made of, as lengths: spent, then reserved, of the budget. */
export function fillBar(bar, campaign) {
  const budget = Number(campaign.budget);
  share(bar.querySelector(".spent"), "width", Number(campaign.spent) / budget);
  share(bar.querySelector(".reserved"), "width", Number(campaign.reserved) / budget);
}
