// Forms: what the service refuses is said beside the field that it names.

import { write } from "./dom.js";

/** Take all complaints away. */
export function clearMistakes(form) {
  for (const mistake of form.querySelectorAll(".mistake")) write(mistake, "");
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

/** The part of a form for a field such as "features.2.levels": itself, or what holds it. */
function placeOf(form, field) {
  const names = (field ?? "").split(".");
  for (let length = names.length; length > 0; length -= 1) {
    const name = names.slice(0, length).join(".");
    const place = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
    if (place !== null && place.closest("[hidden]") === null) return place;
  }
  return null;
}

/** Say what is wrong beside its field, or below all of them, and go there. */
export function showMistake(form, { detail, field }) {
  const place = placeOf(form, field);
  write((place ?? form).querySelector(place === null ? ".mistake.whole" : ".mistake"), detail);
  const input = place?.querySelector("input, select, textarea");
  if (input === undefined || input === null) return;
  input.setAttribute("aria-invalid", "true");
  input.focus();
}

/** Handle the sending of a form: one request at a time, however often it is pressed. */
export function whenSent(form, send) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector('[type="submit"]');
    if (button.getAttribute("aria-disabled") === "true") return;
    clearMistakes(form);
    button.setAttribute("aria-disabled", "true");
    try {
      const answer = await send();
      if (!answer.ok) showMistake(form, answer.body);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}
