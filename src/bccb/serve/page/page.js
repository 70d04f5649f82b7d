// The page: which view is shown, and what the connection brings to it.

import { expectActions, prepareActions, showActions } from "./actions.js";
import { expectReport, showReport } from "./campaign.js";
import { linkTo, nameOf, showCampaigns } from "./campaigns.js";
import { Connection, key } from "./connection.js";
import { byId, write } from "./dom.js";
import { duration } from "./format.js";
import { prepareOpen, showOpen } from "./open.js";

const VIEWS = ["waiting", "key", "missing", "empty", "open", "campaigns", "campaign"];
const NEW = "#/new"; // the address of the form
let view = "waiting";
let ticking = null;
let lostBecause = "";
let shown = null; // the campaign in the address, or null
let cameFrom = null; // the one before
let moved = false; // the focus has yet to follow

/** The id of the campaign in the address, or null for the list. */
function campaignInAddress() {
  const match = /^#\/campaigns\/(.+)$/.exec(location.hash);
  if (match === null) return null;
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1];
  }
}

function show(name) {
  if (view === name) return;
  view = name;
  for (const other of VIEWS) byId(`view-${other}`).hidden = other !== name;
}

function title(text) {
  const whole = text === "" ? "bccb" : `${text} \u00b7 bccb`;
  if (document.title !== whole) document.title = whole;
}

function commands() {
  const body = {
    name: "spring",
    budget: "5000.00",
    horizon: { users: 100_000 },
    features: ["age", "visits"],
    treatments: ["coupon"],
  };
  const lines = [`curl ${location.origin}/v1/campaigns`, "-H 'Content-Type: application/json'"];
  if (key.get() !== null) lines.push('-H "Authorization: Bearer $BCCB_KEY"');
  const fields = Object.entries(body).map(([name, value]) => `"${name}": ${JSON.stringify(value)}`);
  lines.push(`-d '{${fields.join(",\n       ")}}'`);
  write(byId("create-command"), lines.join(" \\\n  "));
  write(byId("drive-command"), `bccb drive --url ${location.origin}`);
}

// What the connection says

function alive() {
  if (ticking !== null) say("Connected again.");
  clearInterval(ticking);
  ticking = null;
  if (document.activeElement === byId("try-now")) moved = true;
  byId("lost").hidden = true;
  document.body.classList.remove("stale");
  lamp("live", "connected");
}

function lamp(state, text) {
  byId("state").dataset.state = state;
  write(byId("state-text"), text);
}

function say(text) {
  write(byId("announcement"), text);
}

function tellLost() {
  const now = Date.now();
  const seen = connection.lastSeen;
  const since = seen === null ? "not seen yet" : `last seen ${duration((now - seen) / 1_000)} ago`;
  const reason = lostBecause === "" ? "" : ` (${lostBecause})`;
  const next = Math.ceil((connection.nextTry - now) / 1_000);
  const then = next > 0 ? `Next try in ${next} s.` : "Trying\u2026";
  write(byId("lost-text"), `Connection lost${reason}, ${since}. ${then}`);
}

const handler = {
  answered(body, scope) {
    alive();
    const id = campaignInAddress();
    for (const link of document.querySelectorAll(".to-open")) link.hidden = scope !== "admin";
    if (location.hash === NEW) {
      showOpen(scope);
      show("open");
      title("Open a campaign");
    } else if (id === null) {
      showCampaigns(body.campaigns);
      if (body.campaigns.length === 0) commands();
      show(body.campaigns.length === 0 ? "empty" : "campaigns");
      title("");
    } else {
      show("campaign");
      showReport(body);
      showActions(body, scope);
      title(body.campaign.name);
    }
    byId("forget").hidden = key.get() === null;
    finishFocus();
  },
  refused(status) {
    alive();
    lamp("refused", "needs a key");
    const wrong = status === 403 ? "This key may not read campaigns." : "The service does not know this key.";
    write(byId("key-mistake"), key.get() === null ? "" : wrong);
    byId("forget").hidden = key.get() === null;
    show("key");
    title("API key");
    byId("key").focus();
  },
  missing() {
    alive();
    write(byId("missing-id"), campaignInAddress() ?? "");
    show("missing");
    title("No such campaign");
    finishFocus();
  },
  lost(reason) {
    lostBecause = reason;
    lamp("lost", "connection lost");
    document.body.classList.add("stale");
    byId("lost").hidden = false;
    tellLost();
    if (ticking !== null) return;
    say("Connection lost.");
    ticking = setInterval(tellLost, 1_000);
  },
};
const connection = new Connection(handler);

// Where the focus goes after a move: to the new heading, or back to the link one came from.

function finishFocus() {
  if (!moved) return;
  moved = false;
  const link = view === "campaigns" && cameFrom !== null ? linkTo(cameFrom) : null;
  const heading = byId(`view-${view}`).querySelector("h1");
  (link ?? heading)?.focus({ preventScroll: link === null });
}

function follow() {
  const id = campaignInAddress();
  cameFrom = shown;
  shown = id;
  if (id === null) {
    if (location.hash !== NEW && cameFrom !== null && linkTo(cameFrom) !== null) show("campaigns");
    connection.watch("/v1/campaigns");
  } else {
    expectReport(nameOf(id));
    expectActions();
    if (nameOf(id) !== "") show("campaign");
    connection.watch(`/v1/campaigns/${encodeURIComponent(id)}/report`);
  }
}

window.addEventListener("hashchange", () => {
  moved = true;
  follow();
  scrollTo(0, 0);
  // What the page knows already is shown at once; else the answer brings the focus.
  if (location.hash !== NEW && view === (shown === null ? "campaigns" : "campaign")) finishFocus();
});

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("key").value.trim();
  // Anything else cannot stand in a header at all.
  if (!/^[\x21-\x7e]+$/.test(text)) {
    write(byId("key-mistake"), "A key is made of plain letters, digits and signs, without spaces.");
    return;
  }
  key.set(text);
  byId("key").value = "";
  moved = true;
  connection.again();
});

byId("forget").addEventListener("click", () => {
  key.forget();
  byId("forget").hidden = true;
  moved = true;
  connection.again();
});

byId("try-now").addEventListener("click", () => connection.again());

prepareActions(() => connection.again(), say);
prepareOpen((campaign) => {
  say(`${campaign.name} is open.`);
  location.hash = `#/campaigns/${encodeURIComponent(campaign.id)}`;
});
follow();
