// The form that opens a campaign.

import { post } from "./connection.js";
import { byId, copyOf, write } from "./dom.js";
import { whenSent } from "./form.js";

const text = (id) => byId(id).value.trim();
const names = (list) => list.split(",").map((name) => name.trim()).filter((name) => name !== "");
// What is not a number goes as it is: the service says what is wrong with it.
const number = (given) => (given === "" || Number.isNaN(Number(given)) ? given : Number(given));

let made = 0; // rows so far, for ids

function renumber() {
  [...byId("features").children].forEach((row, place) => {
    row.dataset.field = `features.${place}`;
    row.querySelector("legend").textContent = `Feature ${place + 1}`;
  });
}

function addFeature() {
  const row = copyOf("feature-row");
  made += 1;
  for (const part of ["name", "kind", "levels", "others", "fill"]) {
    const input = row.querySelector(`.${part}`);
    input.id = `feature-${made}-${part}`;
    row.querySelector(`label[data-for="${part}"]`).htmlFor = input.id;
  }
  const kind = row.querySelector(".kind");
  kind.addEventListener("change", () => {
    for (const part of row.querySelectorAll(".with-levels")) part.hidden = kind.value !== "category";
    row.querySelector(".with-fill").hidden = kind.value === "category";
  });
  row.querySelector("button").addEventListener("click", () => {
    row.remove();
    renumber();
    byId("add-feature").focus();
  });
  byId("features").append(row);
  renumber();
  return row;
}

/** Days since 1970, as the service counts dates; what is no date goes as it is. */
const days = (given) => (Number.isNaN(Date.parse(given)) ? given : Date.parse(given) / 864e5);

/** A number that is always given is sent as its name alone. */
function feature(row) {
  const name = row.querySelector(".name").value.trim();
  const kind = row.querySelector(".kind").value;
  if (kind === "category") {
    return { name, kind, levels: names(row.querySelector(".levels").value), others: row.querySelector(".others").checked };
  }
  const fill = row.querySelector(".fill").value.trim();
  if (fill !== "") return { name, kind, fill: kind === "date" ? days(fill) : number(fill) };
  return kind === "number" ? name : { name, kind };
}

function horizon() {
  if (byId("by-users").checked) return { users: number(text("users")) };
  const end = new Date(byId("ends-at").value);
  const given = { ends_at: Number.isNaN(end.getTime()) ? "" : end.toISOString() };
  return text("expected-users") === "" ? given : { ...given, expected_users: number(text("expected-users")) };
}

function outcome() {
  if (byId("outcome-kind").value === "conversion") return { kind: "conversion" };
  const given = { kind: "amount", negative: byId("negative").checked };
  return text("largest") === "" ? given : { ...given, largest: text("largest") };
}

/** Whether a share of the amount can be charged. */
const canShare = () => byId("outcome-kind").value === "amount" && byId("charge").value === "conversion";

function body() {
  const window = number(text("window"));
  return {
    name: text("name"),
    budget: text("budget"),
    horizon: horizon(),
    treatments: names(byId("treatments").value),
    features: [...byId("features").children].map(feature),
    policy: { name: byId("policy").value },
    outcome_window_seconds: typeof window === "number" ? window * Number(byId("window-unit").value) : window,
    charge: byId("charge").value,
    outcome: outcome(),
    ...(canShare() && text("share") !== "" ? { share: number(text("share")) } : {}),
    ...(text("currency") === "" ? {} : { currency: text("currency") }),
    ...(text("cost-cap") === "" ? {} : { cost_cap: text("cost-cap") }),
  };
}

function showHorizon() {
  byId("users-part").hidden = !byId("by-users").checked;
  byId("time-part").hidden = byId("by-users").checked;
}

function showAmounts() {
  document.querySelector(".amount-part").hidden = byId("outcome-kind").value !== "amount";
  document.querySelector(".share-part").hidden = !canShare();
}

function empty() {
  byId("open-form").reset();
  byId("features").replaceChildren();
  addFeature();
  showHorizon();
  showAmounts();
}

/** Show the form, if this key may open campaigns. */
export function showOpen(scope) {
  byId("open-form").hidden = scope !== "admin";
  byId("open-refused").hidden = scope === "admin";
  write(byId("open-scope"), scope ?? "");
}

/** Wire the form; `opened` is called with the new campaign. */
export function prepareOpen(opened) {
  for (const id of ["by-users", "by-time"]) byId(id).addEventListener("change", showHorizon);
  for (const id of ["outcome-kind", "charge"]) byId(id).addEventListener("change", showAmounts);
  byId("add-feature").addEventListener("click", () => addFeature().querySelector("input").focus());
  whenSent(byId("open-form"), async () => {
    const answer = await post("/v1/campaigns", body());
    if (answer.ok) {
      empty();
      opened(answer.body);
    }
    return answer;
  });
  empty();
}
