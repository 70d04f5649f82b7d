// What can be done to one campaign: pause, resume, close, add money, download its log.

import { fetchWithKey, post } from "./connection.js";
import { byId, write } from "./dom.js";
import { money } from "./format.js";
import { clearMistakes, whenSent } from "./form.js";
import { statusOf } from "./status.js";

const TYPES = ["csv", "parquet"];
let campaign = null; // as of the last report
let request = ""; // the id of the next addition: pressed twice, it adds once
let changed = () => {};
let say = () => {};

const path = (rest) => `/v1/campaigns/${encodeURIComponent(campaign.id)}/${rest}`;

/** An id that nobody else makes. */
function newId() {
  const parts = crypto.getRandomValues(new Uint32Array(4));
  return `page-${Array.from(parts, (part) => part.toString(16)).join("-")}`;
}

/** Show what may be done now, with this scope. */
export function showActions(report, scope) {
  campaign = report.campaign;
  const state = statusOf(campaign, Date.parse(report.now));
  const mine = scope === "admin" && !["closed", "ended", "quarantined"].includes(state);
  byId("actions").hidden = campaign.status === "quarantined";
  byId("turn").hidden = byId("add").hidden = byId("close").hidden = !mine;
  write(byId("turn"), campaign.status === "paused" ? "Resume" : "Pause");
}

/** Begin with another campaign. */
export function expectActions() {
  campaign = null;
  byId("actions").hidden = true;
  write(byId("actions-mistake"), "");
  for (const id of ["add-dialog", "close-dialog"]) byId(id).close();
}

async function turn(how, done) {
  write(byId("actions-mistake"), "");
  const answer = await post(path(how));
  if (answer.ok) say(done);
  else write(byId("actions-mistake"), answer.body.detail);
  changed();
  return answer;
}

async function download(type) {
  write(byId("actions-mistake"), "");
  const { id } = campaign;
  try {
    const response = await fetchWithKey(path(`log?format=${type}`));
    if (!response.ok) throw new Error((await response.json()).detail);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${id}.${type}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say("The log was downloaded.");
  } catch (problem) {
    write(byId("actions-mistake"), `The log was not downloaded: ${problem.message}`);
  }
}

/** Wire the buttons; `done` is called after each change, `tell` says something aloud. */
export function prepareActions(done, tell) {
  changed = done;
  say = tell;
  byId("turn").addEventListener("click", () => {
    if (campaign.status === "paused") turn("resume", "Resumed.");
    else turn("pause", "Paused: nobody is treated until it is resumed.");
  });
  byId("add").addEventListener("click", () => {
    request = newId();
    byId("add-form").reset();
    clearMistakes(byId("add-form"));
    byId("add-dialog").showModal();
  });
  byId("close").addEventListener("click", () => {
    write(byId("close-name"), campaign.name);
    clearMistakes(byId("close-form"));
    byId("close-dialog").showModal();
  });
  for (const button of document.querySelectorAll("dialog .cancel")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  whenSent(byId("add-form"), async () => {
    const amount = byId("add-amount").value.trim();
    const answer = await post(path("budget"), { add: amount, request_id: request });
    if (answer.ok) {
      byId("add-dialog").close();
      say(`Added. The budget is ${money(answer.body.budget)} now.`);
      changed();
    }
    return answer;
  });
  whenSent(byId("close-form"), async () => {
    const answer = await post(path("close"));
    if (answer.ok) {
      byId("close-dialog").close();
      say("Closed for good.");
      changed();
      byId("campaign-name").focus(); // the button is gone
    }
    return answer;
  });
  for (const type of TYPES) byId(`log-${type}`).addEventListener("click", () => download(type));
}
