// Figures and times as people read them. English throughout, for the page is; the zone is the viewer's.

const LANGUAGE = /^en\b/i.test(navigator.language) ? navigator.language : "en-GB";
const THIN = "\u202f"; // a narrow space that does not break
const DAY = 86_400;

const tidy = (text) => text.replace("-", "\u2212");

/** A number with so many decimals. */
export function fixed(value, decimals = 0) {
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return tidy(new Intl.NumberFormat("en", digits).format(value));
}

/** A number with at most, or with exactly, so many significant digits. */
export function significant(value, digits = 3, exactly = false) {
  const least = exactly ? { minimumSignificantDigits: digits } : {};
  const format = new Intl.NumberFormat("en", { maximumSignificantDigits: digits, ...least });
  return tidy(format.format(value));
}

/** Money with cents; small sums show their first digits, and large ones have no cents. */
export function money(text) {
  const value = Number(text);
  if (Math.abs(value) >= 1e6) return fixed(value);
  if (value !== 0 && Math.abs(value) < 0.1) return significant(value, 2);
  return fixed(value, 2);
}

/** How many decimals an interval of this width deserves: steps of a fifth of it or less. */
export function decimalsFor(width, most = 3) {
  if (!(width > 0) || width === Infinity) return 1;
  return Math.min(most, Math.max(0, Math.ceil(Math.log10(5 / width))));
}

/** A share as a percentage. */
export function percent(share, decimals = 1) {
  return `${fixed(100 * share, decimals)}${THIN}%`;
}

/** A rate per second: fractions matter only while it is slow. */
export function pace(value) {
  return value > 0 && value < 10 ? fixed(value, 1) : fixed(value);
}

const format = (options) => new Intl.DateTimeFormat(LANGUAGE, options);
const DATE = format({ day: "numeric", month: "short", year: "numeric" });
const SHORT_DATE = format({ day: "numeric", month: "short" });
const MINUTE = format({ timeStyle: "short" });
const SECOND = format({ timeStyle: "medium" });

const sameDay = (one, other) => one.toDateString() === other.toDateString();

/** A moment: the time alone if it is today, with the date if not. */
export function moment(date, precise = false) {
  const clock = (precise ? SECOND : MINUTE).format(date);
  return sameDay(date, new Date()) ? clock : `${DATE.format(date)}, ${clock}`;
}

/** A date and a time, always both. */
export function dateAndTime(date) {
  return `${DATE.format(date)}, ${MINUTE.format(date)}`;
}

/** How long, in its two largest units. */
export function duration(seconds) {
  const units = [["d", DAY], ["h", 3_600], ["min", 60], ["s", 1]];
  let rest = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [name, size] of units) {
    const count = Math.floor(rest / size);
    if (count > 0 || (name === "s" && parts.length === 0)) parts.push(`${fixed(count)} ${name}`);
    else if (parts.length > 0) break;
    rest -= count * size;
    if (parts.length === 2 || (name === "d" && count > 60)) break;
  }
  return parts.join(" ");
}

/** A clock without morning and afternoon, where there is no room for them. */
function narrowClock(date) {
  const parts = SECOND.formatToParts(date).filter(({ type }) => type !== "dayPeriod");
  return parts.map(({ value }) => value).join("").trim();
}

/** Labels of a time axis; the date stands below the first label of each day but today. */
export function timeLabels(splits, step) {
  let last = new Date();
  return splits.map((at) => {
    const date = new Date(1_000 * at);
    if (step >= DAY) return SHORT_DATE.format(date);
    const clock = step >= 60 ? MINUTE.format(date) : narrowClock(date);
    const label = sameDay(date, last) ? clock : `${clock}\n${SHORT_DATE.format(date)}`;
    last = date;
    return label;
  });
}
